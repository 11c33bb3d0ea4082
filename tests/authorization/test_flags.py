"""What the flags of a server say about authorization, and what it refuses of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.authorization.check import check_whole_set
from replay.authorization.configuration import mode_configuration
from replay.authorization.manifest import NOTHING, AuthorizationManifests, comparable_manifests, load_authorization
from replay.authorization.start import configuration_of_flags, refusal_of
from replay.authorization.trace import AuthorizationVerdict
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ManifestError, ReplayError
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.manifests.server.flags import read_server_flags
from replay.pipeline.authorization.permission import AuthorizationScenario, load_oracle
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
        "tokens of an issuer without its client",
        "--oidc-issuer-url=https://a",
        "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
    ),
    ("tokens of an issuer", "--oidc-issuer-url=https://a --oidc-client-id=b --oidc-username-claim=email", None),
    ("a file of issuers", "--authentication-config=/a.yaml", None),
    (
        "a file of issuers and flags of one",
        "--authentication-config=/a.yaml --oidc-issuer-url=https://a --authorization-mode=X",
        '[authentication-config file and oidc-* flags are mutually exclusive, authorization-mode "X" is not a valid mode]',
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


FIRST = """\
kube-apiserver \\
# --oidc-client-id is not given, --authorization-mode is
--v=2 \\
--authorization-mode=Node,RBAC \\
"""
PLACED = [
    ("of a mode", "--anonymous-auth=false --authorization-mode=X", 4),
    ("of the user", "--anonymous-auth=false \\\n--oidc-issuer-url=https://a", 6),
    ("of the user, the flags named are not given", "--oidc-username-claim=email", 5),
    ("a file of issuers", "--oidc-issuer-url=https://a \\\n--authentication-config=/a.yaml", 6),
    (
        "a gate",
        "--authentication-config=/a.yaml \\\n--feature-gates=StructuredAuthenticationConfiguration=false",
        6,
    ),
    ("a policy file", "--anonymous-auth=false \\\n--authorization-policy-file=/p", 6),
    (
        "a version, whose flag the text does not name",
        "--authorization-mode=Webhook --authorization-webhook-config-file=/k --authorization-webhook-version=v2",
        4,
    ),
]


@pytest.mark.parametrize(("words", "line"), [row[1:] for row in PLACED], ids=[row[0] for row in PLACED])
def test_the_line_of_a_refusal(words: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "apiserver.txt"
    path.write_text(f"{FIRST}{words}\n")
    checked = check_whole_set(tmp_path, OLD)
    assert [(each.message, each.position.line) for each in checked.findings] == [(checked.error, line)]


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


ABAC_FLAGS = "--authorization-mode=ABAC --authorization-policy-file=/etc/abac.jsonl"
POLICIES = """\
# what alice may
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "alice", "namespace": "*", "resource": "*", "apiGroup": "*"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"group": "*", "readonly": true, "nonResourcePath": "/ver*"}}

{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "bob", "group": "dev", "namespace": "a", "resource": "pods", "readonly": true}}
{"user": "carol", "namespace": "c"}
{"user": "dave", "apiGroup": 5, "nonResourcePath": false}
{apiVersion: abac.authorization.kubernetes.io/v1beta1, kind: Policy, spec: {namespace: "*", resource: secrets}}
"""
PODS: dict[str, Any] = {"resource": "pods", "namespace": "a"}
ALLOWED = AuthorizationVerdict.ALLOW
FORBIDDEN = AuthorizationVerdict.FORBID
ABAC_ROWS: list[tuple[str, str, tuple[str, ...], dict[str, Any], AuthorizationVerdict]] = [
    ("anything", "alice", (), {"verb": "delete", "api_group": "apps", "resource": "deployments"}, ALLOWED),
    ("no path, without one", "alice", (), {"verb": "get", "path": "/healthz"}, FORBIDDEN),
    ("a path with what begins so", "eve", ("system:authenticated",), {"verb": "get", "path": "/version"}, ALLOWED),
    ("everybody is whoever is authenticated", "eve", (), {"verb": "get", "path": "/version"}, FORBIDDEN),
    ("read-only", "eve", ("system:authenticated",), {"verb": "post", "path": "/version"}, FORBIDDEN),
    ("a user in a group", "bob", ("dev",), {"verb": "list", **PODS}, ALLOWED),
    ("the user outside of it", "bob", ("ops",), {"verb": "list", **PODS}, FORBIDDEN),
    ("another of the group", "eve", ("dev",), {"verb": "list", **PODS}, FORBIDDEN),
    ("a subresource is not looked at", "bob", ("dev",), {"verb": "get", "subresource": "log", **PODS}, ALLOWED),
    ("another group of the API", "bob", ("dev",), {"verb": "list", "api_group": "metrics.k8s.io", **PODS}, FORBIDDEN),
    ("a policy without a version", "carol", (), {"verb": "create", "resource": "pods", "namespace": "c"}, ALLOWED),
    ("that names a namespace, elsewhere", "carol", (), {"verb": "create", **PODS}, FORBIDDEN),
    ("that names a namespace, a path", "carol", (), {"verb": "get", "path": "/healthz"}, FORBIDDEN),
    ("that names a user alone", "dave", (), {"verb": "get", "path": "/healthz"}, ALLOWED),
    ("a policy for nobody", "eve", (), {"verb": "get", "resource": "secrets", "namespace": "a"}, FORBIDDEN),
]


@pytest.mark.parametrize(
    ("user", "groups", "asked", "expected"), [row[1:] for row in ABAC_ROWS], ids=[row[0] for row in ABAC_ROWS]
)
def test_policies_of_a_file_decide(
    user: str, groups: tuple[str, ...], asked: dict[str, Any], expected: AuthorizationVerdict, tmp_path: Path
) -> None:
    flags_file(tmp_path / "set", ABAC_FLAGS)
    (tmp_path / "set/abac.jsonl").write_text(POLICIES)
    chain = load_oracle(AuthorizationScenario(tmp_path / "set", None)).chain
    assert chain is not None
    decided = chain.decide(AuthorizationAttributes(UserInfo(user, groups=groups), **asked))
    reason = "" if expected is ALLOWED else "abac: No policy matched."
    assert (decided.decision, decided.reason) == (expected, reason)


def test_a_policy_file_that_nobody_gave(tmp_path: Path) -> None:
    path = flags_file(tmp_path / "set", ABAC_FLAGS)
    chain = load_oracle(AuthorizationScenario(tmp_path / "set", None)).chain
    assert chain is not None
    decided = chain.decide(AuthorizationAttributes(UserInfo("alice"), "get", **PODS))
    assert decided.decision is AuthorizationVerdict.UNKNOWN
    found = [(each.severity.value, each.message, each.path) for each in check_whole_set(path.parent, NEWEST).findings]
    text = "--authorization-policy-file names /etc/abac.jsonl, which is not beside the set"
    assert found == [("warning", text, str(path))]


POLICY_LINE = '{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", '


def test_a_policy_file_that_no_mode_reads(tmp_path: Path) -> None:
    flags_file(tmp_path / "set", f"{NAMED} --authorization-policy-file=/etc/abac.jsonl")
    (tmp_path / "set/abac.jsonl").write_text('{"user": 5}')
    (tmp_path / "set/ok.yaml").write_text(FILE)
    assert check_whole_set(tmp_path / "set", NEWEST).error is None


BROKEN = [
    pytest.param(
        f'#\n{POLICY_LINE}"spec": {{"readonly": "yes"}}}}',
        f'line 2: {POLICY_LINE}"spec": {{"readonly": "yes"}}}}: '
        "json: cannot unmarshal string into Go struct field Policy.spec.readonly of type bool",
        id="a text for a boolean",
    ),
    pytest.param(
        '{"user": 5}',
        'line 1: {"user": 5}: json: cannot unmarshal number into Go struct field Policy.user of type string',
        id="a number for a text",
    ),
    pytest.param(
        '{"apiVersion": "v1", "kind": "Pod"}',
        'line 1: {"apiVersion": "v1", "kind": "Pod"}: no kind "Pod" is registered for version "v1"',
        id="another kind",
    ),
]


@pytest.mark.parametrize(("text", "refusal"), BROKEN)
def test_policies_that_no_server_starts_with(text: str, refusal: str, tmp_path: Path) -> None:
    flags_file(tmp_path / "set", ABAC_FLAGS)
    (tmp_path / "set/abac.jsonl").write_text(text)
    with pytest.raises(ManifestError) as raised:
        load_authorization(tmp_path / "set", NEWEST)
    assert raised.value.message == f"error reading policy file /etc/abac.jsonl, {refusal}"
    assert check_whole_set(tmp_path / "set", NEWEST).error == raised.value.message


def test_a_webhook_whose_kubeconfig_names_no_server(tmp_path: Path) -> None:
    flags_file(tmp_path / "set", "--authorization-mode=Webhook --authorization-webhook-config-file=/etc/webhook.conf")
    (tmp_path / "set/webhook.conf").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n"
        "clusters: [{name: b, cluster: {insecure-skip-tls-verify: true}}]\n"
    )
    refusal = 'invalid configuration: no server found for cluster "b"'
    with pytest.raises(ManifestError) as raised:
        load_authorization(tmp_path / "set", NEWEST)
    assert (raised.value.message, check_whole_set(tmp_path / "set", NEWEST).error) == (refusal, refusal)


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
    assert manifests.hints == (f"{unseen}: the authorization decisions of the log are used",)
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
    sides = comparable_manifests((current, candidate), mode_configuration(NODE))
    assert (
        tuple(
            () if each.configuration is None else tuple(member.type for member in each.configuration.authorizers)
            for each in sides
        )
        == chains
    )
