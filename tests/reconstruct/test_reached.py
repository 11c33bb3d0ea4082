"""How far a request came, from its record and the history of its object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import OldObjects
from replay.reconstruct.reached import progress_of, reached_mutation
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.request import Reached

DENIED = "pods \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
MUTATING_DENIED = "policy 'm' with binding 'b' denied request: expression 'object.a' resulted in error: no such key: a"
ESCALATION = 'rolebindings "b" is forbidden: user "ci" (groups=["ci"]) is attempting to grant RBAC permissions not currently held:\n{}'
LIMIT = (
    'pods "web" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, minimum cpu usage per Pod is 1]'
)
CALL = "mutation.webhook.admission.k8s.io/round_0_index_0"
MUTATING = {CALL: '{"configuration":"c","webhook":"m.example.com","mutated":false}'}
EXEC = {"ref": {"subresource": "exec"}}
BINDING = {"ref": {"subresource": "binding"}}
POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "web", "uid": "u", "resourceVersion": "5"},
}
NEWER: dict[str, Any] = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "7"}}
OLDEST: dict[str, Any] = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "1"}}

CASES: list[tuple[str, str, dict[str, Any], Reached]] = [
    ("it succeeded", "create", {"code": 201}, Reached.VALIDATION),
    ("a validating policy denied it", "create", {"code": 422, "message": DENIED}, Reached.VALIDATION),
    ("the object was invalid", "create", {"code": 422, "message": "spec: Required value"}, Reached.FAILED_BEFORE),
    (
        "the authorizer denied it",
        "create",
        {"code": 403, "annotations": {"authorization.k8s.io/decision": "forbid"}},
        Reached.FAILED_BEFORE,
    ),
    (
        "a plugin before the policies denied it",
        "create",
        {"code": 403, "message": 'pods "web" is forbidden: violates PodSecurity "restricted"'},
        Reached.FAILED_BEFORE,
    ),
    (
        "a quota denied it after the policies",
        "create",
        {"code": 403, "message": "exceeded quota: q"},
        Reached.VALIDATION,
    ),
    ("a mutating policy denied it", "create", {"code": 403, "message": MUTATING_DENIED}, Reached.VALIDATION),
    (
        "it applied what does not fit the kind",
        "patch",
        {
            "code": 500,
            "message": "failed to create typed patch object (/w; example.com/v1, Kind=W): .spec: expected map",
        },
        Reached.FAILED_BEFORE,
    ),
    ("RBAC saw an escalation", "update", {"code": 403, "message": ESCALATION}, Reached.FAILED_BEFORE),
    ("a limit denied it", "create", {"code": 403, "message": LIMIT}, Reached.FAILED_BEFORE),
    ("forbidden by nobody knows what", "create", {"code": 403, "message": "no"}, Reached.UNKNOWN),
    (
        "some webhook denied it",
        "create",
        {"code": 403, "message": 'admission webhook "w" denied the request: no'},
        Reached.UNKNOWN,
    ),
    (
        "Kyverno's validating webhook denied it",
        "create",
        {"code": 400, "message": 'admission webhook "validate.kyverno.svc-fail-finegrained-a" denied the request: no'},
        Reached.VALIDATION,
    ),
    (
        "Kyverno's mutating webhook denied it",
        "create",
        {"code": 400, "message": 'admission webhook "mutate.kyverno.svc-fail" denied the request: no'},
        Reached.UNKNOWN,
    ),
    (
        "Gatekeeper's validating webhook denied it",
        "create",
        {"code": 403, "message": 'admission webhook "validation.gatekeeper.sh" denied the request: [a] no'},
        Reached.VALIDATION,
    ),
    (
        "a validating webhook annotated it",
        "create",
        {"code": 409, "annotations": {"v.example.com/key": "x", **MUTATING}},
        Reached.VALIDATION,
    ),
    (
        "only a mutating webhook annotated it",
        "create",
        {"code": 422, "annotations": {"m.example.com/key": "x", **MUTATING}},
        Reached.FAILED_BEFORE,
    ),
    (
        "only Kubernetes annotated it",
        "create",
        {"code": 422, "annotations": {"k8s.io/deprecated": "true"}},
        Reached.FAILED_BEFORE,
    ),
    (
        "a static policy annotated it",
        "create",
        {"code": 422, "annotations": {"p.static.k8s.io/key": "x"}},
        Reached.VALIDATION,
    ),
    ("it exists already", "create", {"code": 409, "reason": "AlreadyExists"}, Reached.VALIDATION),
    (
        "the namespace does not exist",
        "create",
        {"code": 404, "message": 'namespaces "shop" not found'},
        Reached.FAILED_BEFORE,
    ),
    ("a connection that failed", "create", {"code": 500, **EXEC}, Reached.VALIDATION),
    ("a connection that is open", "create", {"code": 0, **EXEC}, Reached.VALIDATION),
    ("a pod that cannot be bound", "create", {"code": 409, **BINDING}, Reached.VALIDATION),
    (
        "a disruption budget",
        "create",
        {"code": 429, "message": "violate the pod's disruption budget", "ref": {"subresource": "eviction"}},
        Reached.VALIDATION,
    ),
    ("too many requests", "create", {"code": 429}, Reached.FAILED_BEFORE),
    ("a timeout", "create", {"code": 504}, Reached.UNKNOWN),
    (
        "a binding without a role",
        "create",
        {"code": 500, "message": 'unsupported role reference kind: ""'},
        Reached.FAILED_BEFORE,
    ),
    ("the log does not have its response", "update", {"code": 0}, Reached.UNKNOWN),
    ("it named an old version", "update", {"code": 409, "request": POD}, Reached.FAILED_BEFORE),
    ("it named the version that was there", "update", {"code": 409, "request": NEWER}, Reached.UNKNOWN),
    ("it named no version", "patch", {"code": 409, "request": {"spec": {}}}, Reached.VALIDATION),
    ("it named a version before all", "update", {"code": 409, "request": OLDEST}, Reached.FAILED_BEFORE),
    (
        "other managers own its fields",
        "patch",
        {"code": 409, "message": "Apply failed with 1 conflict: conflict with", "request": {"spec": {}}},
        Reached.FAILED_BEFORE,
    ),
    (
        "it named another uid",
        "update",
        {"code": 409, "message": "invalid object, Precondition failed: UID in precondition: a", "request": NEWER},
        Reached.FAILED_BEFORE,
    ),
    (
        "a creation named a version",
        "create",
        {"code": 500, "message": "resourceVersion should not be set on objects to be created"},
        Reached.VALIDATION,
    ),
    ("an object that exists is not found", "delete", {"code": 404, "start": 1.05}, Reached.UNKNOWN),
    (
        "its precondition failed",
        "delete",
        {"code": 409, "message": "the UID in the precondition (a) does not match"},
        Reached.FAILED_BEFORE,
    ),
    (
        "an older deletion was under way",
        "delete",
        {
            "response": {
                **NEWER,
                "metadata": {
                    **NEWER["metadata"],
                    "deletionTimestamp": "2026-01-01T00:00:31Z",
                    "deletionGracePeriodSeconds": 30,
                },
            }
        },
        Reached.FAILED_BEFORE,
    ),
]


@pytest.mark.parametrize(("verb", "fields", "reached"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_progress(
    verb: str, fields: dict[str, Any], reached: Reached, pod_record: Callable[..., RequestRecord]
) -> None:
    fields = {"start": 5, **fields}
    records = [
        pod_record("create", 0, code=201, response=POD),
        pod_record("update", 1, request=POD, response=NEWER),
        pod_record(verb, fields.pop("start"), **fields),
    ]
    if fields.get("code") == 404 and verb == "delete":
        records.insert(2, pod_record("delete", 1.1, response={"kind": "Status", "details": {"uid": "u"}}))
    exchanges = [Exchange(record, builtin_discovery()) for record in records]
    assert progress_of(exchanges[-1], OldObjects(History(exchanges))).reached is reached


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (403, 'pods is forbidden: User "x" cannot create resource "pods"', False),
        (403, 'pods "a" is forbidden: violates PodSecurity "baseline:latest": privileged', True),
        (403, ESCALATION, True),
        (403, LIMIT, True),
        (404, 'namespaces "gone" not found', False),
        (409, "the object has been modified", True),
        (422, 'Pod "a" is invalid: spec.containers[0].name: Required value', True),
        (429, "too many requests", False),
        (504, "Timeout: request did not complete", True),
    ],
)
def test_reached_mutation(code: int, message: str, expected: bool, pod_record: Callable[..., RequestRecord]) -> None:
    """A request that the authorizer refused was never mutated; one that was invalid afterwards was."""
    assert reached_mutation(pod_record("create", code=code, message=message)) is expected
