"""AdmissionReviews in each form that they are recorded in, as requests of a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from replay.audit.store import Store
from replay.kube.attributes import UserInfo
from tests.support.log_lines import event, records, rejects

POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:05Z"}}
REQUEST: dict[str, Any] = {
    "uid": "id-1",
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
    "requestResource": {"group": "", "version": "v1", "resource": "pods"},
    "name": "p",
    "namespace": "n",
    "operation": "CREATE",
    "userInfo": {"username": "alice", "groups": ["g"]},
    "object": POD,
    "oldObject": None,
    "dryRun": False,
    "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
}
REVIEW = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": REQUEST}
REFUSED = {"uid": "id-1", "allowed": False, "status": {"message": "no", "code": 418}}


class Case(NamedTuple):
    """`content` becomes one file; `told` is `(auditID, verb, code, the kept review)` of its one request."""

    name: str
    content: str
    told: tuple[str, str, int, dict[str, Any]]


KEPT = {"kind": "AdmissionReview", "request": REQUEST}
PHASES = {"auditID": "id-9", "mutating": REQUEST, "validating": REQUEST}
CASES = [
    Case("a review", json.dumps(REVIEW), ("id-1", "create", 0, KEPT)),
    Case("a review over lines", json.dumps(REVIEW, indent=2), ("id-1", "create", 0, KEPT)),
    Case("a review that was refused", json.dumps({**REVIEW, "response": REFUSED}), ("id-1", "create", 418, KEPT)),
    Case("a review that was allowed", json.dumps({**REVIEW, "response": {"allowed": True}}), ("id-1", "create", 0, KEPT)),
    Case("a request", json.dumps(REQUEST), ("id-1", "create", 0, KEPT)),
    Case("a case", json.dumps({"id": "c", "request": {**REQUEST, "uid": ""}}), ("c", "create", 0, {**KEPT, "request": {**REQUEST, "uid": ""}})),
    Case("a review with where it was sent", json.dumps({"path": "/v", "review": REVIEW}), ("id-1", "create", 0, KEPT)),
    Case("both phases", json.dumps(PHASES), ("id-9", "create", 0, {**KEPT, "mutating": REQUEST, "isValidated": True})),
    Case(
        "one phase of two",
        json.dumps({**PHASES, "validating": None}),
        ("id-9", "create", 0, {**KEPT, "mutating": REQUEST, "isValidated": False}),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_review_is_a_request(case: Case, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(case.content)
    with Store.open() as store:
        store.ingest([tmp_path / "log"])
        (record,) = records(store)
    assert (record.audit_id, record.verb, record.code, json.loads(record.response_object or "")) == case.told
    assert (record.resource, record.namespace, record.name) == ("pods", "n", "p")
    assert record.user == UserInfo("alice", groups=("g",))
    assert json.loads(record.request_object or "") == POD
    assert record.stage_time - record.received == 999_999


def test_reviews_without_a_time_have_that_of_those_before(tmp_path: Path) -> None:
    delete = {**REQUEST, "uid": "id-2", "operation": "DELETE", "object": None}
    other = {**REQUEST, "uid": "id-3", "object": {"metadata": {"managedFields": [{"time": "2026-01-01T00:00:09Z"}]}}}
    lines = [REVIEW, {**REVIEW, "request": delete}, {**REVIEW, "request": other}, {"kind": "Pod"}, 7]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "plain").write_bytes(event(1))
    with Store.open() as store:
        store.ingest([tmp_path / "log"])
        times = [record.received // 1_000_000 % 60 for record in sorted(records(store), key=lambda each: each.audit_id)]
        assert (times, rejects(store)) == ([5, 5, 9], [(4, "not an event"), (5, "malformed")])
