"""Which built-in plugin a message is of, against all that the real plugins said."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson
import pytest

from replay.audit.answer import RefusalPhase, refused_by, wording_of
from replay.reconstruct.snapshot import numbered_lines

CORPUS = Path(__file__).parents[2].parent / "shared" / "builtin"
EXPECTED = sorted(CORPUS.glob("*/expected-*.jsonl.zst"))
SAID_BY_OTHERS = {
    ("NamespaceExists", "NamespaceLifecycle"): 'namespaces "',
    ("PodTolerationRestriction", "NamespaceLifecycle"): 'namespaces "',
    ("PodTolerationRestriction", ""): "invalid character 'o' in literal null",
    ("ImagePolicyWebhook", ""): "the server rejected our request for an unknown reason",
}
"""What does not tell its plugin: by plugin and what is recognised, a part of the message."""


@pytest.mark.shared
@pytest.mark.skipif(not EXPECTED, reason="the corpus is not beside the checkout")
def test_every_refusal_of_the_corpus_tells_its_plugin() -> None:
    may_decide_differently: Counter[tuple[str, str]] = Counter()
    for path in EXPECTED:
        for _, text in numbered_lines(path):
            line = orjson.loads(text)
            for denied in (line.get(phase, {}).get("denied") for phase in ("admit", "validate")):
                for message in (denied or {}).get("messageVariants") or [(denied or {}).get("message")]:
                    if message and (found := refused_by(message)) != path.parent.name:
                        assert SAID_BY_OTHERS[path.parent.name, found] in message
                        may_decide_differently[path.parent.name, found] += 1
    assert may_decide_differently.keys() == SAID_BY_OTHERS.keys()


FORBIDDEN = 'pods "web" is forbidden: '
ROWS = [
    (f"{FORBIDDEN}pod update requires features A which are not available", "NodeDeclaredFeatureValidator", "validate"),
    (f"{FORBIDDEN}node didn't have enough allocatable resources: cpu", "PodResizeValidator", "validate"),
    (f"{FORBIDDEN}admission control is denying all modifications", "AlwaysDeny", "validate"),
    ('x "y" is forbidden: user not permitted to attest for signerName "s"', "ClusterTrustBundleAttest", "validate"),
    ('namespaces "kube-system" is forbidden: this namespace may not be deleted', "NamespaceLifecycle", "mutate"),
    ('nodes "n" is forbidden: node "m" is not allowed to modify node "n"', "NodeRestriction", "mutate"),
    ('pods "n" is forbidden: User "system:node:n" cannot get resource "pods"', "", ""),
    (f"{FORBIDDEN}not yet ready to handle request", "", ""),
]


@pytest.mark.parametrize(("message", "plugin", "policies"), ROWS)
def test_a_message(message: str, plugin: str, policies: str) -> None:
    wording = wording_of(message)
    assert refused_by(message) == plugin
    assert (wording.phase if wording else "") == (
        RefusalPhase(f"before the policies that {policies}") if policies else ""
    )


def test_an_absent_namespace_is_a_refusal_where_something_else_was_asked_for() -> None:
    message = 'namespaces "a" not found'
    assert (refused_by(message, "pods"), refused_by(message, "namespaces")) == ("NamespaceLifecycle", "")
