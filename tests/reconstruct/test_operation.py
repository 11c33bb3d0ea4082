"""Whether a refused PUT or apply was to create or to update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Operation
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.history.history import History
from replay.reconstruct.operation import operations_of
from replay.reconstruct.record.exchange import Exchange

UPDATE, CREATE = Operation.UPDATE, Operation.CREATE
SERVICES, PODS = {"resource": "services"}, {"resource": "pods"}
STORED = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "web", "uid": "u", "resourceVersion": "5"}}
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
        "of a subresource nothing is created",
        [],
        ("update", 5, {"code": 422, "request": BODY, "ref": {**SERVICES, "subresource": "status"}}),
        (UPDATE,),
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
