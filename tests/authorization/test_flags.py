"""What the flags of a server say about authorization, and what it refuses of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.authorization.configuration import mode_configuration
from replay.authorization.flags import configuration_of_flags, refusal_of
from replay.authorization.manifest import NOTHING, AuthorizationManifests, as_logged, load_authorization
from replay.authorization.set_check import check_whole_set
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ManifestError, ReplayError
from replay.manifests.server.flags import read_server_flags
from replay.pipeline.authorization.can_i import AuthorizationScenario, load_oracle
from replay.pipeline.manifests import manifests_of
from replay.pipeline.scenario import Scenario
from replay.pipeline.set_diff import set_difference

EXCLUSIVE = "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined"
OLD = KubernetesVersion.parse("1.31")
REFUSED: list[tuple[str, str, str | None]] = [
    ("modes", "--authorization-mode=Node,RBAC", None),
    ("none", "--anonymous-auth=false", None),
    ("an empty mode", "--authorization-mode=", None),
    ("a mode that there is not", "--authorization-mode=Nonsense", 'authorization-mode "Nonsense" is not a valid mode'),
    ("a file", "--authorization-config=/a.yaml", None),
    ("a file and modes", "--authorization-mode=RBAC --authorization-config=/a.yaml", EXCLUSIVE),
    ("a file and a version", "--authorization-webhook-version=v1 --authorization-config=/a.yaml", EXCLUSIVE),
    ("a file and a time", "--authorization-webhook-cache-authorized-ttl=1s --authorization-config=/a.yaml", EXCLUSIVE),
    ("a file and a policy file", "--authorization-policy-file=/p --authorization-config=/a.yaml", None),
    ("a webhook", "--authorization-mode=Webhook --authorization-webhook-config-file=/k", None),
    (
        "a webhook without a file",
        "--authorization-mode=Webhook",
        "authorization-mode Webhook's authorization config file not passed",
    ),
    (
        "a file without the webhook",
        "--authorization-mode=RBAC --authorization-webhook-config-file=/k",
        "cannot specify --authorization-webhook-config-file without mode Webhook",
    ),
    (
        "a webhook of a version that there is not",
        "--authorization-mode=Webhook --authorization-webhook-config-file=/k --authorization-webhook-version=v2",
        'unsupported webhook authorizer version "v2", supported versions are "v1", "v1beta1"',
    ),
    (
        "ABAC without a file",
        "--authorization-mode=ABAC",
        "authorization-mode ABAC's authorization policy file not passed",
    ),
    (
        "several problems",
        "--authorization-mode=RBAC,RBAC,X --authorization-policy-file=/p",
        (
            "["
            'authorization-mode "X" is not a valid mode, cannot specify --authorization-policy-file without mode ABAC, '
            'authorization-mode ["RBAC" "RBAC" "X"] has mode specified more than once]'
        ),
    ),
]


def flags_file(directory: Path, words: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "apiserver.txt"
    path.write_text(f"kube-apiserver {words}\n")
    return path


@pytest.mark.parametrize(("words", "refusal"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_a_server_does_not_start_with(words: str, refusal: str | None, tmp_path: Path) -> None:
    path = flags_file(tmp_path, words)
    assert refusal_of(read_server_flags(path, NEWEST), NEWEST) == refusal
    if refusal is not None:
        with pytest.raises(ManifestError) as raised:
            load_authorization(tmp_path, NEWEST)
        assert raised.value.message == refusal
        checked = check_whole_set(tmp_path, NEWEST)
        assert (checked.error, [each.message for each in checked.findings]) == (refusal, [refusal])


def test_a_file_needs_its_gate(tmp_path: Path) -> None:
    words = "--authorization-config=/a.yaml --feature-gates=StructuredAuthorizationConfiguration=false"
    flags = read_server_flags(flags_file(tmp_path, words), OLD)
    text = "--authorization-config cannot be used without enabling StructuredAuthorizationConfiguration feature flag"
    assert refusal_of(flags, OLD) == text


def test_a_time_is_a_duration(tmp_path: Path) -> None:
    path = flags_file(tmp_path, "--authorization-webhook-cache-authorized-ttl=5")
    with pytest.raises(ManifestError, match=r'invalid argument "5" .*: time: missing unit in duration "5"'):
        read_server_flags(path, NEWEST)


def test_the_chain_of_modes(tmp_path: Path) -> None:
    words = (
        "--authorization-mode=Node,Webhook,RBAC --authorization-webhook-config-file=/k "
        "--authorization-webhook-cache-unauthorized-ttl=0"
    )
    node, webhook, rbac = configuration_of_flags(read_server_flags(flags_file(tmp_path, words), NEWEST)).authorizers
    assert [(each.type, each.name) for each in (node, webhook, rbac)] == [
        ("Node", "node"),
        ("Webhook", "default"),
        ("RBAC", "rbac"),
    ]
    called = webhook.webhook
    assert called is not None
    assert (called.failure_policy, called.subject_access_review_version) == ("NoOpinion", "v1beta1")
    assert (called.cache_authorized_requests, called.cache_unauthorized_requests) == (True, False)


FILE = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers: [{type: AlwaysDeny, name: alwaysdeny}]
"""
NAMED = "--authorization-config=/etc/kubernetes/ok.yaml"
PLACES = ["set/etc/kubernetes/ok.yaml", "set/ok.yaml", "ok.yaml"]


@pytest.mark.parametrize("place", PLACES)
def test_a_file_that_lies_with_the_set_is_used(place: str, tmp_path: Path) -> None:
    flags_file(tmp_path / "set", NAMED)
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(FILE)
    own = load_authorization(tmp_path / "set", NEWEST)
    assert own.configuration is not None
    assert [each.type for each in own.configuration.authorizers] == ["AlwaysDeny"]
    oracle = load_oracle(AuthorizationScenario(tmp_path / "set", None))
    assert oracle.chain is not None
    assert check_whole_set(tmp_path / "set", NEWEST).error is None


def test_a_file_that_nobody_gave(tmp_path: Path) -> None:
    path = flags_file(tmp_path / "set", NAMED)
    unseen = f"{path}: --authorization-config names /etc/kubernetes/ok.yaml, which is not beside the set"
    manifests = manifests_of(Scenario((), current=tmp_path / "set", candidate=tmp_path / "set"))
    assert all(each.is_empty for each in manifests.authorization)
    assert manifests.hints == (f"{unseen}: authorization is taken as the log has it",)
    with pytest.raises(ReplayError) as raised:
        load_oracle(AuthorizationScenario(tmp_path / "set", None))
    assert str(raised.value) == f"{unseen}: put it there, under its name"
    (finding,) = check_whole_set(tmp_path / "set", NEWEST).findings
    assert finding.message == "--authorization-config names /etc/kubernetes/ok.yaml, which is not beside the set"
    assert set_difference(tmp_path / "set", tmp_path / "set", Scenario(()).versions).objects == ()


def chain(*modes: str, of_flags: bool = True, rbac: bool = False, unseen: str = "") -> AuthorizationManifests:
    return AuthorizationManifests(
        configuration=mode_configuration(modes) if modes else None,
        rbac=({},) if rbac else None,
        of_flags=of_flags,
        unseen=unseen,
    )


NODE = ("Node", "RBAC")
COMPARED: list[tuple[str, AuthorizationManifests, AuthorizationManifests, tuple[tuple[str, ...], ...]]] = [
    ("flags that say the same", chain(*NODE), chain(*NODE), ((), ())),
    ("flags that say what a set without them has", chain(*NODE), NOTHING, ((), ())),
    ("a candidate without flags has those of the baseline", chain("AlwaysAllow"), NOTHING, ((), ())),
    ("flags that differ", chain(*NODE), chain("AlwaysAllow"), (NODE, ("AlwaysAllow",))),
    ("flags of the candidate alone", NOTHING, chain("AlwaysAllow"), ((), ("AlwaysAllow",))),
    ("RBAC is compared under the same flags", chain(*NODE), chain(*NODE, rbac=True), (NODE, NODE)),
    ("a file that nobody gave", chain(*NODE), chain(unseen="there"), ((), ())),
    ("a set of its own", chain(*NODE, of_flags=False), chain(*NODE, of_flags=False), (NODE, NODE)),
]


@pytest.mark.parametrize(
    ("current", "candidate", "chains"), [row[1:] for row in COMPARED], ids=[row[0] for row in COMPARED]
)
def test_what_is_compared(
    current: AuthorizationManifests, candidate: AuthorizationManifests, chains: tuple[tuple[str, ...], ...]
) -> None:
    sides = as_logged((current, candidate), mode_configuration(NODE))
    assert (
        tuple(
            () if each.configuration is None else tuple(member.type for member in each.configuration.authorizers)
            for each in sides
        )
        == chains
    )
