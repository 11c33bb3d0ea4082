"""Quotas over a log: what is charged, given back, and refused in the order of admission."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.admission.builtin.resource_quota.evaluator import counted_resources
from replay.compare.result import RunResult
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from tests.support.log_lines import event

QUOTA = """apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: n}
spec: {hard: {pods: "2"}}
"""
NO_STATUS = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-status}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [UPDATE], resources: [pods/status]}]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-status}
spec: {policyName: no-status, validationActions: [Deny]}
"""
NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "n", "uid": "u"},
    "status": {"phase": "Active"},
}


def pod(number: int, **metadata: Any) -> Any:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "namespace": "n", **metadata},
        "spec": spec,
    }


def created(number: int, *, user: str = "alice") -> bytes:
    uid = {"uid": f"uid-{number}", "resourceVersion": str(number), "creationTimestamp": "2026-01-01T00:00:00Z"}
    return event(number, requestObject=pod(number), responseObject=pod(number, **uid), user={"username": user})


def deleted(number: int, pod_number: int) -> bytes:
    reference = {"resource": "pods", "namespace": "n", "name": f"p{pod_number}", "apiVersion": "v1"}
    uid = {"uid": f"uid-{pod_number}", "resourceVersion": str(pod_number)}
    return event(
        number,
        verb="delete",
        objectRef=reference,
        requestURI=f"/api/v1/namespaces/n/pods/p{pod_number}",
        responseStatus={"code": 200},
        responseObject=pod(pod_number, **uid),
    )


def deleted_collection(number: int, *pod_numbers: int) -> bytes:
    items = [pod(each, uid=f"uid-{each}", resourceVersion=str(each)) for each in pod_numbers]
    return event(
        number,
        verb="deletecollection",
        objectRef={"resource": "pods", "namespace": "n", "apiVersion": "v1"},
        requestURI="/api/v1/namespaces/n/pods?labelSelector=a%3Db",
        responseStatus={"code": 200},
        responseObject={"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": items},
    )


HELD = {"finalizers": ["example.com/held"]}
GOING = {"deletionTimestamp": "2026-01-01T00:00:03Z", "deletionGracePeriodSeconds": 0}


def created_held(number: int) -> bytes:
    uid = {"uid": f"uid-{number}", "resourceVersion": str(number), "creationTimestamp": "2026-01-01T00:00:00Z"}
    return event(number, requestObject=pod(number, **HELD), responseObject=pod(number, **uid, **HELD))


def deleted_held(number: int, pod_number: int) -> bytes:
    """The deletion of a pod that its finalizer holds."""
    line = orjson.loads(deleted(number, pod_number))
    uid = {"uid": f"uid-{pod_number}", "resourceVersion": str(number)}
    return orjson.dumps(line | {"responseObject": pod(pod_number, **uid, **HELD, **GOING)})


def released(number: int, pod_number: int) -> bytes:
    """A patch that takes the finalizer of a pod."""
    uid = {"uid": f"uid-{pod_number}", "resourceVersion": str(number)}
    return event(
        number,
        verb="patch",
        objectRef={"resource": "pods", "namespace": "n", "name": f"p{pod_number}", "apiVersion": "v1"},
        requestURI=f"/api/v1/namespaces/n/pods/p{pod_number}",
        requestObject={"metadata": {"finalizers": None}},
        responseStatus={"code": 200},
        responseObject=pod(pod_number, **uid, **GOING),
    )


def failed(line: bytes, code: int, reason: str, message: str) -> bytes:
    """The line of a request that failed."""
    status = {"code": code, "status": "Failure", "reason": reason, "message": message}
    return orjson.dumps(orjson.loads(line) | {"responseStatus": status, "responseObject": {"kind": "Status", **status}})


def forbidden(line: bytes, verb: str) -> bytes:
    """The line of a request of mallory, whom the authorizers refuse."""
    message = f'pods is forbidden: User "mallory" cannot {verb} resource "pods" in API group "" in the namespace "n"'
    event = orjson.loads(failed(line, 403, "Forbidden", message))
    event["user"] = {"username": "mallory"}
    event["annotations"] = {"authorization.k8s.io/decision": "forbid"}
    return orjson.dumps(event)


def config_map(number: int, verb: str) -> bytes:
    name = "" if verb == "create" else "/c"
    metadata = {"name": "c", "namespace": "n", "uid": "c", "resourceVersion": str(number)}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return event(
        number,
        verb=verb,
        objectRef={"resource": "configmaps", "namespace": "n", "name": "c", "apiVersion": "v1"},
        requestURI=f"/api/v1/namespaces/n/configmaps{name}",
        requestObject=obj if verb == "create" else None,
        responseStatus={"code": 201 if verb == "create" else 200},
        responseObject=obj,
    )


EXISTS = failed(created(3), 409, "AlreadyExists", 'pods "p1" already exists')
BY_OTHERS = "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no"
EXCEEDED = "exceeded quota: old, requested: pods=1, used: pods=1, limited: pods=1"
AGAIN = orjson.dumps(orjson.loads(EXISTS) | {"requestObject": pod(1)})
LOGS: list[tuple[str, list[bytes], list[str]]] = [
    ("what fits, and what does not", [created(1), created(2), created(3)], ["unchanged", "unchanged", "newly_denied"]),
    (
        "what goes makes room",
        [created(1), created(2), deleted(3, 1), created(4), created(5)],
        ["unchanged", "unchanged", "unchanged", "unchanged", "newly_denied"],
    ),
    (
        "what goes with a collection makes room",
        [created(1), created(2), deleted_collection(3, 1, 2), created(4), created(5), created(6)],
        [*["unchanged"] * 5, "newly_denied"],
    ),
    (
        "what a finalizer holds makes room when the finalizer goes",
        [created_held(1), created(2), deleted_held(3, 1), created(4), released(5, 1), created(6), created(7)],
        ["unchanged", "unchanged", "unchanged", "newly_denied", "unchanged", "unchanged", "newly_denied"],
    ),
    (
        "what never came to be makes none",
        [created(1), created(2), created(3), deleted(4, 3), created(5)],
        ["unchanged", "unchanged", "newly_denied", "unchanged", "newly_denied"],
    ),
    (
        "what was charged for a pod that exists stays charged when an object of another kind goes",
        [created(1), config_map(2, "create"), AGAIN, config_map(4, "delete"), created(5)],
        ["unchanged", "unchanged", "unchanged", "unchanged", "newly_denied"],
    ),
    (
        "a deletion that the authorizers refuse makes no room",
        [created(1), created(2), forbidden(deleted(3, 1), "delete"), created(4)],
        ["unchanged", "unchanged", "unchanged", "newly_denied"],
    ),
    (
        "what only the candidate has makes room when it is deleted",
        [
            failed(created(1), 403, "Forbidden", f'pods "p1" is forbidden: {EXCEEDED}'),
            created(2),
            failed(deleted(3, 1), 404, "NotFound", 'pods "p1" not found'),
            created(4),
            created(5),
        ],
        ["newly_admitted", "unchanged", "unchanged", "unchanged", "newly_denied"],
    ),
    (
        "what a policy refuses that neither set has is not charged",
        [
            failed(created(1), 422, "Invalid", f'pods "p1" is forbidden: {BY_OTHERS}'),
            created(2),
            created(3),
            created(4),
        ],
        ["unchanged", "unchanged", "unchanged", "newly_denied"],
    ),
]


def applied(number: int, pod_number: int) -> bytes:
    """An apply of a pod that the server of the log found, where it conflicts with another manager."""
    line = orjson.loads(created(number)) | {
        "verb": "patch",
        "objectRef": {"resource": "pods", "namespace": "n", "name": f"p{pod_number}", "apiVersion": "v1"},
        "requestURI": f"/api/v1/namespaces/n/pods/p{pod_number}?fieldManager=me",
        "requestObject": pod(pod_number),
    }
    return failed(orjson.dumps(line), 409, "Conflict", 'Apply failed with 1 conflict: conflict with "you": .spec')


def ended(number: int, pod_number: int, subresource: str) -> bytes:
    """A patch of a pod that has come to its end, or of its status, with which it does."""
    reference = {"resource": "pods", "namespace": "n", "name": f"p{pod_number}", "apiVersion": "v1"}
    uid = {"uid": f"uid-{pod_number}", "resourceVersion": str(number)}
    return event(
        number,
        verb="patch",
        objectRef=reference | {"subresource": subresource} if subresource else reference,
        requestURI=f"/api/v1/namespaces/n/pods/p{pod_number}" + (f"/{subresource}" if subresource else ""),
        requestObject={"status": {"phase": "Succeeded"}} if subresource else {"metadata": {"labels": {"a": "b"}}},
        responseStatus={"code": 200},
        responseObject=pod(pod_number, **uid) | {"status": {"phase": "Succeeded"}},
    )


def replayed(lines: list[bytes], at: Path, policy: str = "", *objects: Any) -> tuple[list[Any], RunResult]:
    """The lines of the outcomes where the candidate has the quota, and the result. `objects` are more of the snapshot."""
    log, candidate, snapshot = at / "audit.jsonl", at / "candidate", at / "cluster.jsonl"
    log.write_bytes(b"\n".join(lines) + b"\n")
    (candidate / "objects").mkdir(parents=True)
    (candidate / "objects" / "quota.yaml").write_text(QUOTA)
    if policy:
        (candidate / "api").mkdir()
        (candidate / "api" / "policy.yaml").write_text(policy)
    snapshot.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in (NAMESPACE, *objects)))
    out = at / "out.jsonl"
    scenario = Scenario((str(log),), candidate=candidate, cluster=snapshot)
    result = run(scenario, Options(workers=1, outcomes=out), lambda *_: None)
    return [orjson.loads(line) for line in out.read_bytes().splitlines()], result


@pytest.mark.parametrize(("lines", "outcomes"), [row[1:] for row in LOGS], ids=[row[0] for row in LOGS])
def test_a_quota_over_time(lines: list[bytes], outcomes: list[str], tmp_path: Path) -> None:
    found, result = replayed(lines, tmp_path)
    assert [each["outcome"] for each in found] == outcomes
    denials = [denial for each in found for denial in each["candidate"]["denials"]]
    assert {denial["policy"] for denial in denials} == {"ResourceQuota"}
    assert denials[0]["message"].endswith(
        "is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    )
    assert "ResourceQuota n/q begins with nothing: the snapshot has no pods" in result.notes


def test_an_apply_of_what_the_candidate_lacks_comes_to_its_quotas(tmp_path: Path) -> None:
    found, _ = replayed([created(1), created(2), created(3), applied(4, 3)], tmp_path)
    ends = [(each["candidate"]["result"]["cause"], each["candidate"]["result"]["code"]) for each in found]
    assert ends == [("succeeds", 201), ("succeeds", 201), ("denied", 403), ("denied", 403)]


def test_a_quota_of_unknown_usage_leaves_open_only_what_it_counts(tmp_path: Path) -> None:
    metadata = {"name": "old", "namespace": "n"}
    unknown = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": {"hard": {"pods": "9"}}}
    found, _ = replayed([config_map(1, "create"), created(2)], tmp_path, "", unknown)
    assert [each["outcome"] for each in found] == ["unchanged", "undetermined"]


def test_a_pod_whose_end_the_candidate_refuses_is_counted_after_other_writes(tmp_path: Path) -> None:
    lines = [created(1), created(2), ended(3, 1, "status"), ended(4, 1, ""), created(5)]
    found, _ = replayed(lines, tmp_path, NO_STATUS)
    denied = [[each["policy"] for each in line["candidate"]["denials"]] for line in found]
    assert denied == [[], [], ["no-status"], [], ["ResourceQuota"]]


@pytest.mark.parametrize(
    ("name", "resources"),
    [
        ("pods", {"pods"}),
        ("limits.memory", {"pods"}),
        ("services.nodeports", {"services"}),
        ("configmaps", {"configmaps"}),
        ("count/configmaps", {"configmaps"}),
        ("count/deployments.apps", {"deployments.apps"}),
        ("count/pods", {"pods"}),
        ("gold.storageclass.storage.k8s.io/requests.storage", {"persistentvolumeclaims"}),
        ("requests.nvidia.com/gpu", {"pods"}),
        ("unknown", set()),
    ],
)
def test_which_objects_use_something_of_a_quota(name: str, resources: set[str]) -> None:
    assert {str(each) for each in counted_resources([name])} == resources
