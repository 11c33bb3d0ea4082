"""Writes that meet the deletion of a pod: evictions, patches that remove, deletions that insist on a version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Missing, PartialObject
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import OldObjects
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, attribute

Record = Callable[..., RequestRecord]
STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
CONDITION = {"type": "DisruptionTarget", "status": "True"}
REVISION, MANAGED = "oldObject.metadata.resourceVersion", "oldObject.metadata.managedFields"
TIMESTAMP, PERIOD = "oldObject.metadata.deletionTimestamp", "oldObject.metadata.deletionGracePeriodSeconds"
GENERATION = "oldObject.metadata.generation"


def pod(revision: int | None, phase: str = "Running", conditions: list[Any] | None = None, **metadata: Any) -> Any:
    named = {"name": "web", "namespace": "shop", "uid": "u1", "generation": 1, **metadata}
    if revision is not None:
        named["resourceVersion"] = str(revision)
    spec = {"nodeName": "n", "terminationGracePeriodSeconds": 30}
    status = {"phase": phase, "conditions": conditions or []}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": named, "spec": spec, "status": status}


def deleting(revision: int | None, second: int, period: int, **fields: Any) -> Any:
    due = f"2026-01-01T00:00:{second + period:02}Z"
    return pod(revision, generation=2, deletionTimestamp=due, deletionGracePeriodSeconds=period, **fields)


def old_of(records: list[RequestRecord]) -> Any:
    """The oldObject of the last record."""
    exchanges = [Exchange(record, builtin_discovery()) for record in records]
    return attribute(OldObjects(History(exchanges)).old_object(exchanges[-1]), "oldObject")


def missing(found: Any) -> set[str]:
    return {found.path} if isinstance(found, Missing) else {of.path for of in found.missing}


def eviction(record: Record, start: float, end: float | None = None) -> RequestRecord:
    return record("create", start, end, code=201, ref={"subresource": "eviction"}, request={}, response=STATUS)


def removal(record: Record, start: float) -> RequestRecord:
    """A removal that found a pod which an eviction is deleting, and wrote its own deletion first."""
    gone = deleting(9, 4, 0, conditions=[CONDITION])
    return record("delete", start, request={"gracePeriodSeconds": 0}, response=gone)


def refusal(record: Record, start: float) -> RequestRecord:
    return record("delete", start, code=403, message="denied", response={"kind": "Status"})


def test_an_eviction_within_a_second_leaves_a_state_that_is_known(pod_record: Record) -> None:
    refused = refusal(pod_record, 3)
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        eviction(pod_record, 2),
        removal(pod_record, 4),
        refused,
    ]
    found = old_of(records)
    assert missing(found) == {REVISION, MANAGED}
    told = {
        name: found.value["metadata"][name]
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation")
    }
    assert told == {"deletionTimestamp": "2026-01-01T00:00:32Z", "deletionGracePeriodSeconds": 30, "generation": 2}
    assert found.value["status"]["conditions"] == [CONDITION]


@pytest.mark.parametrize(
    ("name", "evicted", "more", "paths"),
    [
        ("its second is open", (1.95, 2.05), [], {REVISION, MANAGED, TIMESTAMP}),
        ("a deletion overlaps", (2, 2.5), [("delete", 2.2)], {REVISION, MANAGED, TIMESTAMP, PERIOD, GENERATION}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_eviction_leaves_open(
    name: str, evicted: tuple[float, float], more: list[tuple[str, float]], paths: set[str], pod_record: Record
) -> None:
    del name
    others = [pod_record(verb, at, response=deleting(8, 2, 20, conditions=[CONDITION])) for verb, at in more]
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        eviction(pod_record, *evicted),
        *others,
        removal(pod_record, 4),
    ]
    exchanges = [Exchange(record, builtin_discovery()) for record in records]
    history = History(exchanges)
    place = history.index_of(exchanges[1])
    assert place is not None
    assert missing(attribute(history.after(place), "oldObject")) == paths


def test_a_deletion_beside_an_eviction_may_have_found_its_condition(pod_record: Record) -> None:
    """The eviction writes its condition first; the deletion answers with a Status, which shows nothing of it."""
    deletion = pod_record("delete", 2.2, 2.3, response={"kind": "Status", "apiVersion": "v1", "status": "Success"})
    records = [pod_record("create", 0, code=201, response=pod(5)), eviction(pod_record, 2, 2.5), deletion]
    conditions = "oldObject.status.conditions"
    assert missing(old_of(records)) == {REVISION, MANAGED, TIMESTAMP, PERIOD, GENERATION, conditions}
    apart = [pod_record("create", 0, code=201, response=pod(5)), eviction(pod_record, 3, 3.5), deletion]
    exchanges = [Exchange(record, builtin_discovery()) for record in apart]
    found = attribute(OldObjects(History(exchanges)).old_object(exchanges[-1]), "oldObject")
    assert found == pod(5)


@pytest.mark.parametrize(
    ("spec", "finalizers", "is_gone"),
    [
        ({}, [], True),
        ({}, ["example.com/keep"], False),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, [], False),
    ],
    ids=["it runs nowhere", "a finalizer keeps it", "it runs on a node"],
)
def test_an_eviction_removes_a_pod_that_nothing_keeps(
    spec: dict[str, Any], finalizers: list[str], is_gone: bool, pod_record: Record
) -> None:
    created = pod(5, finalizers=finalizers)
    created["spec"] = spec
    records = [pod_record("create", 0, code=201, response=created), eviction(pod_record, 2)]
    exchanges = [Exchange(record, builtin_discovery()) for record in records]
    after = History(exchanges).after(1)
    assert isinstance(after, Known)
    assert (after.value is None) is is_gone


def test_a_patch_shows_of_an_eviction_what_it_did_not_touch(pod_record: Record) -> None:
    shown = deleting(8, 2, 30, conditions=[CONDITION], phase="Running")
    patch = pod_record(
        "patch", 3, ref={"subresource": "status"}, request={"status": {"phase": "Running"}}, response=shown
    )
    records = [pod_record("create", 0, code=201, response=pod(5, "Pending")), eviction(pod_record, 1.95, 2.05), patch]
    found = old_of(records)
    assert missing(found) == {REVISION, MANAGED}
    assert found.value["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:32Z"
    assert found.value["status"]["phase"] == "Pending"


def test_a_patch_that_removes_its_object_found_what_it_answers_but_for_what_it_touched(pod_record: Record) -> None:
    """Its revision is that of a deletion whose own answer has none."""
    removed = deleting(7, 3, 0, phase="Running")
    records = [
        pod_record("create", 0, code=201, response=pod(5, "Pending")),
        pod_record(
            "delete", 2.9, 3.4, request={"gracePeriodSeconds": 0}, response=deleting(None, 3, 0, phase="Pending")
        ),
        pod_record(
            "patch", 3, ref={"subresource": "status"}, request={"status": {"phase": "Running"}}, response=removed
        ),
    ]
    found = old_of(records)
    assert isinstance(found, PartialObject)
    assert missing(found) == {MANAGED}
    assert found.value["metadata"] | {"managedFields": None} == removed["metadata"] | {"managedFields": None}
    assert found.value["status"]["phase"] == "Pending"


def test_a_patch_that_removes_its_object_found_the_version_that_it_answers(pod_record: Record) -> None:
    marked = deleting(6, 2, 0, phase="Failed")
    removed = deleting(6, 2, 0, phase="Succeeded")
    finalizing = {**marked, "metadata": {**marked["metadata"], "finalizers": ["f"]}}
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        pod_record("delete", 2, response=finalizing),
        pod_record("patch", 3, request={"metadata": {"finalizers": None}, "status": {}}, response=removed),
    ]
    assert old_of(records) == finalizing


@pytest.mark.parametrize(
    ("code", "message", "known"),
    [
        (409, "Precondition failed: ResourceVersion in precondition: 5, ResourceVersion in object meta: 6", True),
        (404, 'pods "web" not found', True),
        (422, "denied", False),
    ],
)
def test_a_deletion_that_insists_on_a_version_found_it(
    code: int, message: str, known: bool, pod_record: Record
) -> None:
    """A refusal may be that of the removal after the deletion's own first write."""
    options = {"preconditions": {"resourceVersion": "5"}}
    records = [
        pod_record("create", 0, code=201, response=pod(5)),
        pod_record("patch", 1, 2, request={"status": {"phase": "Failed"}}, response=pod(6, "Failed")),
        pod_record("delete", 1, 2, code=code, message=message, request=options, response={"kind": "Status"}),
    ]
    assert (old_of(records) == pod(5)) is known
