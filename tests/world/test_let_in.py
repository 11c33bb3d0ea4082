"""Requests that only the candidate's authorizers let in: the log lacks their bodies, and of some creations the name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.world.result import result_of
from tests.world.test_consequences import CLUSTER, Request

RBAC = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: b}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}}
subjects: [{{kind: User, name: admin}}{more}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: r}}
rules: [{{apiGroups: ["", apps], resources: ["*"], verbs: ["*"]}}]
"""
POLICY = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
{more}  matchConstraints: {{resourceRules: [{{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [deployments]}}]}}
  validations: [{{expression: "object.spec.replicas < 9"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: b}}
spec: {{policyName: p, validationActions: [{action}]{bound}}}
"""
WARNS, FORBIDS = (POLICY.format(action=action, more="", bound="") for action in ("Warn", "Deny"))
MUTATION = """apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: p}}
spec:
  reinvocationPolicy: Never
  matchConstraints: {{resourceRules: [{{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [deployments]}}]}}
  mutations: [{{patchType: ApplyConfiguration, applyConfiguration: {{expression: "Object{{{configuration}}}"}}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: b}}
spec: {{policyName: p}}
"""
LABELS_IT = MUTATION.format(configuration="metadata: Object.metadata{labels: {'x': 'y'}}")
LABELS_BADLY = MUTATION.format(configuration="metadata: Object.metadata{labels: {'a~b': 'y'}}")
SCALES_IT = MUTATION.format(configuration="spec: Object.spec{replicas: 3}")
LABELS_AS_IT_IS = MUTATION.format(configuration="metadata: Object.metadata{labels: {'x': object.metadata.name}}")
MAKES_IT_ATOMIC = MUTATION.format(
    configuration="spec: Object.spec{selector: Object.spec.selector{matchLabels: {'x': 'y'}}}"
)
WITH_PARAMETER = POLICY.format(
    action="Deny",
    more="  paramKind: {apiVersion: v1, kind: ConfigMap}\n",
    bound=", paramRef: {name: other, parameterNotFoundAction: Allow}",
)
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
BODY = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a"},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
}
End = tuple[str, int]


def refused(verb: str, name: str = "a", **fields: Any) -> Request:
    """A request of jane, whom the log's authorizers refuse."""
    return Request(verb, name, code=403, message='x is forbidden: User "jane" cannot do that', **fields)


def missed(verb: str, name: str = "a") -> Request:
    return Request(verb, name, code=404, message=f'configmaps "{name}" not found', user="admin", body=LABELLED)


def missed_service(verb: str) -> Request:
    message = 'services "a" not found'
    return Request(verb, code=404, message=message, user="admin", resource="services", body=LABELLED)


def by_admin(verb: str, code: int, **fields: Any) -> Request:
    return Request(verb, code=code, user="admin", **fields)


CONFLICT = 'Apply failed with 1 conflict: conflict with "admin" using apps/v1: .spec.replicas'
OTHERWISE = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 2}}
OWNED = [
    {
        "manager": "admin",
        "operation": "Update",
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {}}},
    }
]
LACKS = [{"reason": "FieldValueRequired", "field": "spec.selector", "message": "Required value"}]
APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
LABELS = {"x": "y"}
LABELLED = {"metadata": {"labels": {"x": "y"}}}
NAMELESS = refused("create", "")
DELETED = Request("delete", code=200, user="admin", body={})


@dataclass(frozen=True)
class Row:
    """Requests, and how they end where jane is let in; a request without a line ends as in the log.

    Each line of a request that ends otherwise names what caused that: the request itself, or an earlier one.
    """

    name: str
    requests: list[Request]
    expected: list[End]
    policy: str = ""
    """A policy of both sets."""


ROWS = [
    Row(
        "a creation without a name may have created what a later request did not find",
        [NAMELESS, missed("patch")],
        [("succeeds", 201), ("unknown", 0)],
    ),
    Row(
        "an apply updates what such a creation may have created, or creates it",
        [NAMELESS, missed("patch"), by_admin("patch", 201, query="?fieldManager=me&force=true", body=APPLIED)],
        [("succeeds", 201), ("unknown", 0), ("succeeds", 0)],
    ),
    Row(
        "a dry run of a creation creates nothing",
        [refused("create", "", query="?dryRun=All"), missed("patch")],
        [("succeeds", 201), ("absent", 404)],
    ),
    Row("not what it did not find before", [missed("patch"), NAMELESS], [("absent", 404), ("succeeds", 201)]),
    Row(
        "not what was there, and was deleted afterwards",
        [by_admin("create", 201), NAMELESS, DELETED, missed("patch")],
        [("succeeds", 201), ("succeeds", 201), ("succeeds", 200), ("absent", 404)],
    ),
    Row(
        "a deletion that found nothing deletes whatever it created",
        [NAMELESS, missed("delete"), missed("patch")],
        [("succeeds", 201), ("unknown", 0), ("absent", 404)],
    ),
    Row(
        "what it may have created after the deletion",
        [NAMELESS, missed("delete"), NAMELESS, missed("patch")],
        [("succeeds", 201), ("unknown", 0), ("succeeds", 201), ("unknown", 0)],
    ),
    Row(
        "a patch that only an apply may be creates its object",
        [refused("patch", query="?fieldManager=me&force=true"), Request("create", code=201, user="admin")],
        [("succeeds", 201), ("exists", 409)],
    ),
    Row(
        "a deletion deletes what such an apply created",
        [
            refused("patch", query="?fieldManager=me&force=true"),
            Request("delete", code=404, message='configmaps "a" not found', user="admin"),
            missed("patch"),
        ],
        [("succeeds", 201), ("succeeds", 200), ("absent", 404)],
    ),
    Row(
        "the garbage collector holds what such an apply created",
        [
            refused("patch", query="?fieldManager=me&force=true"),
            Request(
                "delete",
                code=404,
                message='configmaps "a" not found',
                user="admin",
                query="?propagationPolicy=Foreground",
            ),
            missed("patch"),
        ],
        [("succeeds", 201), ("succeeds", 200), ("unknown", 0)],
    ),
    Row(
        "a patch that may be an apply",
        [refused("patch", query="?fieldManager=me"), Request("create", code=201, user="admin")],
        [("unknown", 0), ("unknown", 0)],
    ),
    Row(
        "a dry run of a deletion deletes nothing",
        [by_admin("create", 201), refused("delete", query="?dryRun=All"), by_admin("patch", 200, body=LABELLED)],
        [("succeeds", 201), ("succeeds", 200), ("succeeds", 200)],
    ),
    Row(
        "a deletion of a collection deletes what it selects",
        [
            by_admin("create", 201, labels=LABELS),
            by_admin("create", 201, name="b"),
            refused("deletecollection", "", query="?labelSelector=x%3Dy"),
            by_admin("patch", 200, body=LABELLED),
            by_admin("patch", 200, name="b", body=LABELLED),
        ],
        [("succeeds", 201), ("succeeds", 201), ("succeeds", 200), ("absent", 404), ("succeeds", 200)],
    ),
    Row(
        "a deletion of a collection in which an object may be",
        [missed("patch"), refused("patch", query="?fieldManager=me"), refused("deletecollection", "")],
        [("absent", 404), ("unknown", 0), ("succeeds", 200)],
    ),
    Row("a deletion of a collection of nothing", [refused("deletecollection", "")], [("succeeds", 0)]),
    Row("a patch that is none", [missed("patch"), refused("patch")], [("absent", 404), ("absent", 404)]),
    Row(
        "a deletion creates nothing, not even what an update creates",
        [missed_service("patch"), refused("delete", resource="services")],
        [("absent", 404), ("absent", 404)],
    ),
    Row(
        "a write of the status leaves the selector, which no update may change",
        [
            by_admin("create", 201, resource="deployments", body=BODY),
            refused("patch", resource="deployments", subresource="status"),
            by_admin("patch", 200, resource="deployments", body={"spec": {"selector": {"matchLabels": {"app": "z"}}}}),
        ],
        [("succeeds", 201), ("succeeds", 200), ("invalid", 422)],
    ),
    Row(
        "a write of the status leaves the owners of other fields",
        [
            by_admin("create", 201, resource="deployments", body=BODY, managers=OWNED),
            refused("patch", resource="deployments", subresource="status"),
            by_admin("patch", 409, resource="deployments", body=OTHERWISE, query="?fieldManager=you", message=CONFLICT),
        ],
        [("succeeds", 201), ("succeeds", 200), ("conflict", 409)],
    ),
    Row(
        "a policy that only warns refuses nothing, whatever the log does not show",
        [by_admin("create", 201, resource="deployments", body=BODY), refused("patch", resource="deployments")],
        [("succeeds", 201), ("succeeds", 200)],
        WARNS,
    ),
    Row(
        "one that denies may refuse it",
        [by_admin("create", 201, resource="deployments", body=BODY), refused("patch", resource="deployments")],
        [("succeeds", 201), ("unknown", 0)],
        FORBIDS,
    ),
    Row(
        "a mutation that fails for no object refuses nothing",
        [refused("create", "", resource="deployments")],
        [("succeeds", 201)],
        LABELS_IT,
    ),
    Row(
        "a mutation that sets an invalid label may make the object invalid",
        [refused("create", "", resource="deployments")],
        [("unknown", 0)],
        LABELS_BADLY,
    ),
    Row(
        "one that sets a field of the spec may not fit the others",
        [refused("create", "", resource="deployments")],
        [("unknown", 0)],
        SCALES_IT,
    ),
    Row(
        "a mutation that reads the object may fail",
        [refused("create", "", resource="deployments")],
        [("unknown", 0)],
        LABELS_AS_IT_IS,
    ),
    Row(
        "one that writes an atomic field fails, if it is reached",
        [refused("create", "", resource="deployments")],
        [("unknown", 0)],
        MAKES_IT_ATOMIC,
    ),
    Row(
        "an apply that was invalid because it created its object may be valid, or conflict, where the object exists",
        [
            by_admin("delete", 404, resource="deployments", message='deployments.apps "a" not found', body={}),
            refused("patch", query="?fieldManager=me&force=true", resource="deployments"),
            by_admin("patch", 422, resource="deployments", body=OTHERWISE, query="?fieldManager=you", causes=LACKS),
        ],
        [("absent", 404), ("succeeds", 201), ("unknown", 0)],
    ),
    Row(
        "another parameter that no policy reads leaves the decision about an apply",
        [
            by_admin("create", 201, name="other"),
            by_admin("create", 201),
            refused("patch"),
            by_admin("create", 201, resource="deployments", body=BODY),
            by_admin("patch", 200, resource="deployments", body=BODY, query="?fieldManager=me"),
        ],
        [("succeeds", 201), ("succeeds", 201), ("succeeds", 200), ("succeeds", 201), ("succeeds", 200)],
        WITH_PARAMETER,
    ),
]


def event(request: Request, number: int) -> bytes:
    """The event with a URI that authorizers read, and no body where they refused."""
    line = orjson.loads(request.event(number))
    group = "apis/apps/v1" if request.resource == "deployments" else "api/v1"
    named = request.name if request.verb not in ("create", "deletecollection") else ""
    parts = [group, "namespaces/default", request.resource, named, request.subresource]
    line["requestURI"] = "/" + "/".join(part for part in parts if part) + request.query
    if request.code == 403:
        line.pop("requestObject")
    return orjson.dumps(line)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_let_in(row: Row, tmp_path: Path) -> None:
    log, outcomes, cluster = (tmp_path / name for name in ("audit.jsonl", "out.jsonl", "cluster.json"))
    log.write_bytes(b"\n".join(event(request, number) for number, request in enumerate(row.requests)))
    cluster.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    for name, more in (("current", ""), ("candidate", ", {kind: User, name: jane}")):
        (tmp_path / name / "rbac").mkdir(parents=True)
        (tmp_path / name / "rbac" / "rbac.yaml").write_text(RBAC.format(more=more), "utf-8")
        if row.policy:
            (tmp_path / name / "api").mkdir()
            (tmp_path / name / "api" / "policy.yaml").write_text(row.policy, "utf-8")
    scenario = Scenario((str(log),), current=tmp_path / "current", candidate=tmp_path / "candidate", cluster=cluster)
    run(scenario, Options(outcomes=outcomes, workers=1), lambda _what, _done, _total: None)
    found = [result_of(each.code, each.message, "") for each in row.requests]
    ends = [(str(each.cause), each.code) for each in found]
    without_cause = []
    for line in map(orjson.loads, outcomes.read_bytes().splitlines()):
        if (result := (line.get("candidate") or {}).get("result")) is not None:
            number = int(line["auditID"].removeprefix("id-"))
            if result["cause"] != ends[number][0] and not (line.get("root") or line.get("follows")):
                without_cause.append(number)
            ends[number] = (result["cause"], result["code"])
    assert (ends, without_cause) == (row.expected, [])
