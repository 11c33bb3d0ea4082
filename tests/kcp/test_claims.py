"""What plugins of kcp set between mutating and validating policies, where the log shows only what was sent."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.kcp.mutation import claim_labels, set_unseen
from replay.kcp.shard.layout import SHARD_VERSION
from replay.kube.attributes import Missing, Operation, UserInfo
from replay.kube.gvk import GroupResource
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "kcp"
EXPORT = "225ltCwQNGyReWbPGQGDkZVj4zp2gwznt7Vus2"
KEY = f"claimed.internal.apis.kcp.io/{EXPORT}"
OF_CONFIGMAPS = "3QVjs6pfBjMpLEVYYhysJnroYGsQGlWm05E4qe"
REFLEXIVE = "LstvmbbzVDDOn90ZbhzSQO5U3DMCf88h1pZ"
CONFIGMAPS = GroupResource("", "configmaps")
BINDINGS = GroupResource("apis.kcp.io", "apibindings")
GADGETS = GroupResource("gadgets.example.org", "gadgets")


def binding(*claims: dict[str, Any], export: str = EXPORT) -> dict[str, Any]:
    labels = {"internal.apis.kcp.io/export": export} if export else {}
    return {"metadata": {"name": "widgets", "labels": labels}, "spec": {"permissionClaims": list(claims)}}


def claim(**fields: Any) -> dict[str, Any]:
    selector = {"matchAll": True}
    return {"group": "", "resource": "configmaps", "state": "Accepted", "selector": selector, "verbs": ["*"], **fields}


CLAIMS: list[tuple[str, Any, GroupResource, dict[str, str]]] = [
    ("accepted", binding(claim()), CONFIGMAPS, {KEY: OF_CONFIGMAPS}),
    ("refused", binding(claim(state="Rejected")), CONFIGMAPS, {}),
    ("of another resource", binding(claim(resource="secrets")), CONFIGMAPS, {}),
    ("of another group", binding(claim(group="example.org")), CONFIGMAPS, {}),
    (
        "without a selector",
        binding({k: v for k, v in claim().items() if k != "selector"}),
        CONFIGMAPS,
        {KEY: OF_CONFIGMAPS},
    ),
    ("by a label", binding(claim(selector={"matchLabels": {"team": "a"}})), CONFIGMAPS, {KEY: OF_CONFIGMAPS}),
    ("by another label", binding(claim(selector={"matchLabels": {"team": "b"}})), CONFIGMAPS, {}),
    (
        "by an expression",
        binding(claim(selector={"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]})),
        CONFIGMAPS,
        {KEY: OF_CONFIGMAPS},
    ),
    (
        "by what is no selector",
        binding(claim(selector={"matchExpressions": [{"key": "a", "operator": "Is"}]})),
        CONFIGMAPS,
        {},
    ),
    (
        "of a review",
        binding(claim(group="authentication.k8s.io", resource="tokenreviews")),
        GroupResource("authentication.k8s.io", "tokenreviews"),
        {},
    ),
    ("not yet admitted", binding(claim(), export=""), CONFIGMAPS, {}),
    ("of the binding itself", binding(), BINDINGS, {KEY: REFLEXIVE}),
    ("nothing", None, CONFIGMAPS, {}),
]


@pytest.mark.parametrize(("obj", "resource", "expected"), [row[1:] for row in CLAIMS], ids=[row[0] for row in CLAIMS])
def test_what_claims_a_binding_accepts(obj: Any, resource: GroupResource, expected: dict[str, str]) -> None:
    assert claim_labels(obj, resource, "widgets", {"team": "a"}) == expected


def test_claims_of_two_identities_are_told_apart() -> None:
    claims = [claim(group=GADGETS.group, resource=GADGETS.resource, identityHash=each) for each in ("a", "b")]
    first, second = (claim_labels(binding(each), GADGETS, "g", {})[KEY] for each in claims)
    assert first != second
    events = binding(claim(resource="events"))
    assert claim_labels(events, GroupResource("events.k8s.io", "events"), "e", {}).keys() == {KEY}


ADMIN = UserInfo("admin", uid="1", groups=("dev",))
PATH = ("metadata", "annotations", "kcp.io/path")
OWNER = ("metadata", "annotations", "experimental.tenancy.kcp.io/owner")
WORKSPACES = GroupResource("tenancy.kcp.io", "workspaces")
SAYS_PATH = {"metadata": {"annotations": {"kcp.io/path": "root:lie"}}}
UNSEEN: list[tuple[str, GroupResource, Operation, UserInfo, Any, dict[tuple[str, ...], Any]]] = [
    ("of others", CONFIGMAPS, Operation.CREATE, ADMIN, {}, {}),
    ("a path that is not so", CONFIGMAPS, Operation.UPDATE, ADMIN, SAYS_PATH, {PATH: "root:a"}),
    ("an export", GroupResource("apis.kcp.io", "apiexports"), Operation.CREATE, ADMIN, {}, {PATH: "root:a"}),
    (
        "a binding",
        BINDINGS,
        Operation.CREATE,
        ADMIN,
        {},
        {
            PATH: "root:a",
            ("metadata", "labels", "internal.apis.kcp.io/export"): None,
            ("metadata", "finalizers"): None,
            ("status",): None,
        },
    ),
    (
        "a workspace",
        WORKSPACES,
        Operation.CREATE,
        ADMIN,
        {},
        {OWNER: '{"username":"admin","uid":"1","groups":["dev"]}', ("status",): None},
    ),
    (
        "a workspace of kcp",
        WORKSPACES,
        Operation.CREATE,
        UserInfo("x", groups=("system:masters",)),
        {},
        {("status",): None},
    ),
    (
        "an owner whom Go writes otherwise",
        WORKSPACES,
        Operation.CREATE,
        UserInfo("<x>"),
        {},
        {OWNER: None, ("status",): None},
    ),
    ("a workspace that is there", WORKSPACES, Operation.UPDATE, ADMIN, {}, {}),
]


@pytest.mark.parametrize(
    ("resource", "operation", "user", "sent", "expected"), [row[1:] for row in UNSEEN], ids=[row[0] for row in UNSEEN]
)
def test_what_only_storage_shows(
    resource: GroupResource, operation: Operation, user: UserInfo, sent: Any, expected: dict[tuple[str, ...], Any]
) -> None:
    found = set_unseen(resource, operation, user, "root:a", sent)
    assert {path: None if isinstance(value, Missing) else value for path, value in found.items()} == expected


CLAIM_POLICY = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "unclaimed"},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["configmaps"],
                        }
                    ]
                },
                "validations": [
                    {"expression": f"!has(object.metadata.labels) || !('{KEY}' in object.metadata.labels)"},
                ],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "unclaimed"},
            "spec": {"policyName": "unclaimed", "validationActions": ["Deny"]},
        },
    ],
}


def verdicts(tmp_path: Path, cluster: Path) -> dict[tuple[str, int], set[str]]:
    """By workspace what a policy that refuses claimed objects says of ConfigMaps, by how the log says that they ended."""
    for path in ("root.consumer-a", "root.local"):
        shutil.copytree(SAMPLE / "current" / path, tmp_path / "next" / path)
        (tmp_path / "next" / path / "unclaimed.json").write_text(json.dumps(CLAIM_POLICY))
    log = str(SAMPLE / "audit.jsonl.zst")
    scenario = Scenario(
        (log,), current=SAMPLE / "current", candidate=tmp_path / "next", cluster=cluster, version=SHARD_VERSION
    )
    run(scenario, Options(outcomes=tmp_path / "lines", workers=1), lambda _what, _done, _total: None)
    with pa.CompressedInputStream(pa.OSFile(log), "zstd") as stream:
        events = [json.loads(line) for line in stream.read().decode().splitlines()]
    codes = {event["auditID"]: event["responseStatus"]["code"] for event in events}
    found: dict[tuple[str, int], set[str]] = {}
    for line in map(json.loads, (tmp_path / "lines").read_text().splitlines()):
        if line["resource"]["resource"] == "configmaps" and line["current"]["verdict"] != "not_reached":
            named = {denial["policy"] for denial in line["candidate"]["denials"]} & {"unclaimed"}
            said = "undetermined" if line["candidate"]["verdict"] == "undetermined" else "".join(named) or "allowed"
            found.setdefault((line["workspace"], codes[line["auditID"]]), set()).add(said)
    return found


def test_a_refused_object_has_the_labels_of_its_claims(tmp_path: Path) -> None:
    found = verdicts(tmp_path, SAMPLE / "cluster")
    assert found["root:consumer-a", 422] == found["root:consumer-a", 201] == {"unclaimed"}
    assert found["root:local", 201] == {"allowed"}


def test_without_bindings_the_labels_are_not_known(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE / "cluster", tmp_path / "cluster")
    for each in (tmp_path / "cluster").glob("*/apibindings.yaml"):
        each.unlink()
    found = verdicts(tmp_path, tmp_path / "cluster")
    assert found["root:consumer-a", 422] == {"undetermined"}
    assert found["root:consumer-a", 201] == {"unclaimed"}
