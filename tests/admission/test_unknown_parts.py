"""Mutating policies on objects of which a part is not known."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission.decision import Verdict
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from tests.support.chain_sets import ADD_A, POD, PULL_ALWAYS, decide, policy, replaced, request

MISSING = Missing("object", "it is not recorded", "record it")
IMAGE = Missing("object.spec.containers[0].image", "it is not recorded")
LABELS = Missing("object.metadata.labels", "it is not recorded")


def known_but_for(missing: Missing, *path: str | int) -> PartialObject:
    def without(value: Any, keys: tuple[str | int, ...]) -> Any:
        if not keys:
            return missing
        copy = value.copy()
        copy[keys[0]] = without(value[keys[0]], keys[1:])
        return copy

    return PartialObject(without(POD, path), (missing,))


UNKNOWN: list[tuple[str, list[JSON], Any, Verdict, tuple[JSON, ...]]] = [
    ("object", policy("p", ADD_A), MISSING, Verdict.UNDETERMINED, ()),
    (
        "object, but the policy is skipped",
        policy("p", ADD_A, conditions=["request.name == 'x'"]),
        MISSING,
        Verdict.ADMITTED,
        (),
    ),
    (
        "a part that the mutation neither reads nor touches",
        policy("p", PULL_ALWAYS),
        known_but_for(IMAGE, "spec", "containers", 0, "image"),
        Verdict.ADMITTED,
        (replaced("/spec/containers/0/imagePullPolicy", "Always"),),
    ),
    (
        "a part that the mutation touches",
        policy("p", ADD_A),
        known_but_for(LABELS, "metadata", "labels"),
        Verdict.UNDETERMINED,
        (),
    ),
    (
        "a part that the mutation reads",
        policy("p", "Object{spec: Object.spec{nodeName: object.metadata.labels.app}}"),
        known_but_for(LABELS, "metadata", "labels"),
        Verdict.UNDETERMINED,
        (),
    ),
    *(
        (
            f"a part that a JSON patch names: {operation}",
            policy("p", f"[JSONPatch{{{operation}}}]"),
            known_but_for(LABELS, "metadata", "labels"),
            Verdict.UNDETERMINED,
            (),
        )
        for operation in (
            "op: 'remove', path: '/metadata/labels'",
            "op: 'remove', path: '/metadata/labels/app'",
            "op: 'test', path: '/metadata/labels', value: {'app': 'web'}",
            "op: 'add', path: '/metadata/labels/team', value: 'a'",
            "op: 'copy', from: '/metadata/labels', path: '/metadata/annotations'",
            "op: 'move', from: '/metadata/labels/app', path: '/spec/nodeName'",
            "op: 'replace', path: '/metadata', value: {'name': 'web'}",
        )
    ),
    (
        "a part beside those that a JSON patch names",
        policy(
            "p",
            "[JSONPatch{op: 'test', path: '/kind', value: 'Pod'}, JSONPatch{op: 'add', path: '/spec/nodeName', value: 'n'}]",
        ),
        known_but_for(LABELS, "metadata", "labels"),
        Verdict.ADMITTED,
        ({"op": "add", "path": "/spec/nodeName", "value": "n"},),
    ),
    (
        "a part that a condition reads",
        policy("p", ADD_A, conditions=["object.spec.containers[0].image == 'x'"]),
        known_but_for(IMAGE, "spec", "containers", 0, "image"),
        Verdict.UNDETERMINED,
        (),
    ),
    (
        "a part that a condition reads, and nothing would change",
        policy(
            "p",
            "Object{metadata: Object.metadata{labels: {'app': 'web'}}}",
            conditions=["object.spec.containers[0].image == 'x'"],
        ),
        known_but_for(IMAGE, "spec", "containers", 0, "image"),
        Verdict.ADMITTED,
        (),
    ),
]


@pytest.mark.parametrize(("name", "manifests", "value", "verdict", "patch"), UNKNOWN, ids=[row[0] for row in UNKNOWN])
def test_unknown_parts(name: str, manifests: list[JSON], value: Any, verdict: Verdict, patch: tuple[JSON, ...]) -> None:  # noqa: ARG001
    (decision,) = decide(manifests, before=request(value), after=request(POD))
    assert (decision.verdict, decision.patch) == (verdict, patch)
    assert bool(decision.undetermined) == (verdict is Verdict.UNDETERMINED)
