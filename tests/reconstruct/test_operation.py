"""Whether a refused PUT or apply was to create or to update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Operation
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import ObjectRef
from replay.reconstruct.history.collection_deletion import CollectionDeletions, Row
from replay.reconstruct.history.history import History
from replay.reconstruct.operation import operations_of
from replay.reconstruct.record.exchange import Exchange

UPDATE, CREATE = Operation.UPDATE, Operation.CREATE
SERVICES, PODS = {"resource": "services"}, {"resource": "pods"}
META = {"name": "web", "uid": "u", "resourceVersion": "5"}
STORED = {"kind": "Service", "apiVersion": "v1", "metadata": META}
BODY = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "web"}}
APPLY = "/api/v1/namespaces/shop/services/web?fieldManager=me"

Event = tuple[str, float, dict[str, Any]]
CREATED: Event = ("create", 0, {"code": 201, "response": STORED})
DELETED: Event = ("delete", 2, {"response": {"kind": "Status", "apiVersion": "v1", "status": "Success"}})
CREATED_LATER: Event = ("create", 9, {"code": 201, "response": STORED})
CHANGED_LATER: Event = ("update", 9, {"code": 200, "response": STORED})
PUT: Event = ("update", 5, {"code": 403, "request": BODY})

CASES: list[tuple[str, list[Event], Event, tuple[Operation, ...]]] = [
    ("nothing is known of the object", [], PUT, (UPDATE, CREATE)),
    ("it was there", [CREATED], PUT, (UPDATE,)),
    ("it was gone", [CREATED, DELETED], PUT, (CREATE,)),
    ("it was created later", [CREATED_LATER], PUT, (CREATE,)),
    ("it was changed later", [CHANGED_LATER], PUT, (UPDATE,)),
    ("it was going away", [CREATED, ("delete", 4.9, {**DELETED[2], "end": 5.2})], PUT, (UPDATE, CREATE)),
    ("it names a version", [], ("update", 5, {"code": 403, "request": STORED}), (UPDATE,)),
    ("a PUT of this kind creates nothing", [], ("update", 5, {"code": 403, "request": BODY, "ref": PODS}), (UPDATE,)),
    ("it was not found", [], ("update", 5, {"code": 404, "request": BODY}), (UPDATE,)),
    (
        "an apply creates any kind",
        [],
        ("patch", 5, {"code": 422, "request": BODY, "uri": APPLY, "ref": PODS}),
        (UPDATE, CREATE),
    ),
    ("a merge patch creates nothing", [], ("patch", 5, {"code": 422, "request": {"spec": {}}}), (UPDATE,)),
    (
        "by the status of most kinds nothing is created",
        [],
        ("update", 5, {"code": 422, "request": BODY, "ref": {"resource": "limitranges", "subresource": "status"}}),
        (UPDATE,),
    ),
    (
        "by the status of a Service it is",
        [],
        ("update", 5, {"code": 422, "request": BODY, "ref": {**SERVICES, "subresource": "status"}}),
        (UPDATE, CREATE),
    ),
]


@pytest.mark.parametrize(("log", "asked", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_operation(
    log: list[Event], asked: Event, expected: tuple[Operation, ...], pod_record: Callable[..., RequestRecord]
) -> None:
    exchanges = [
        Exchange(pod_record(verb, start, **{"ref": SERVICES, **fields}), builtin_discovery())
        for verb, start, fields in (*log, asked)
    ]
    assert operations_of(exchanges[-1], History(exchanges)) == expected


AT = 1_767_225_600_000_000
OF_PODS = {"ref": PODS, "uri": "/api/v1/namespaces/shop/pods/web?fieldManager=me"}


def deletion(
    items: list[list[str]] | None, start: float = 2, query: str = "", group: str = "", resource: str = "services"
) -> Row:
    began = AT + int(start * 1e6)
    uri = f"/api/v1/namespaces/shop/{resource}{query}"
    return (group, resource, "shop", began, began + 100_000, uri, items)


RECREATED = {**STORED, "metadata": {**META, "uid": "v", "resourceVersion": "8"}}
CHANGED = {**STORED, "metadata": {**META, "resourceVersion": "7"}}
SEEN_LATER: Event = ("update", 9, {"code": 200, "response": CHANGED})
NEW_LATER: Event = ("patch", 9, {"code": 200, "response": RECREATED})
METADATA = {"level": "Metadata", "request_object": None, "response_object": None}
DELETED_UNSEEN: Event = ("delete", 2, {"replace": METADATA})
GONE_OR_THERE = (UPDATE, CREATE)

COLLECTED: list[tuple[str, list[Event], list[Row], Event, tuple[Operation, ...]]] = [
    ("it is listed", [CREATED], [deletion([["web", "u", ""]])], PUT, (CREATE,)),
    ("others are listed", [CREATED], [deletion([["api", "x", ""]])], PUT, (UPDATE,)),
    ("nothing is listed", [CREATED], [deletion([])], PUT, (UPDATE,)),
    ("a finalizer keeps it", [CREATED], [deletion([["web", "u", "kept"]])], PUT, GONE_OR_THERE),
    ("the log does not list them", [CREATED], [deletion(None)], PUT, GONE_OR_THERE),
    ("it is seen later", [CREATED, SEEN_LATER], [deletion(None)], PUT, (UPDATE,)),
    ("another of its name is seen later", [CREATED, NEW_LATER], [deletion(None)], PUT, (CREATE,)),
    ("another is selected", [CREATED], [deletion(None, query="?fieldSelector=metadata.name=api")], PUT, (UPDATE,)),
    ("it is selected", [CREATED], [deletion(None, query="?fieldSelector=metadata.name=web")], PUT, GONE_OR_THERE),
    ("of another resource", [CREATED], [deletion(None, resource="secrets")], PUT, (UPDATE,)),
    ("of another group", [CREATED], [deletion(None, group="x.io")], PUT, (UPDATE,)),
    ("before it was created", [CREATED], [deletion(None, start=-2)], PUT, (UPDATE,)),
    ("after the request", [CREATED], [deletion(None, start=7)], PUT, (UPDATE,)),
    ("at the same time", [CREATED], [deletion([["web", "u", ""]], start=5.05)], PUT, GONE_OR_THERE),
    (
        "a pod lingers",
        [("create", 0, {**CREATED[2], **OF_PODS})],
        [deletion([["web", "u", ""]], resource="pods")],
        ("patch", 5, {"code": 422, "request": BODY, **OF_PODS}),
        GONE_OR_THERE,
    ),
    ("it was deleted by a request without bodies", [CREATED, DELETED_UNSEEN], [], PUT, GONE_OR_THERE),
]


@pytest.mark.parametrize(
    ("log", "deletions", "asked", "expected"), [case[1:] for case in COLLECTED], ids=[case[0] for case in COLLECTED]
)
def test_operation_after_a_collection_was_deleted(
    log: list[Event],
    deletions: list[Row],
    asked: Event,
    expected: tuple[Operation, ...],
    pod_record: Callable[..., RequestRecord],
) -> None:
    exchanges = [
        Exchange(pod_record(verb, start, **{"ref": SERVICES, **fields}), builtin_discovery())
        for verb, start, fields in (*log, asked)
    ]
    record = exchanges[-1].record
    collected = CollectionDeletions(deletions).effects_on(ObjectRef("", record.resource, "shop", "web"))
    assert operations_of(exchanges[-1], History(exchanges, collected=collected)) == expected
