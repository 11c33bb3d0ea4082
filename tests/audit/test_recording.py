"""The store against a plain reading of the recording `shop`: every request, every field, every object's order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.audit.event import RequestRecord
from replay.audit.store import Store

SHOP = Path(__file__).parents[2].parent / "shared" / "recordings" / "shop" / "audit.jsonl.zst"
STAGES = ("RequestReceived", "ResponseStarted", "Panic", "ResponseComplete")

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHOP.exists(), reason="the recordings are not beside the checkout"),
]


def last_stages() -> dict[str, tuple[int, dict[str, Any]]]:
    """The line and the event of the last stage of each request."""
    found: dict[str, tuple[int, dict[str, Any]]] = {}
    with pa.input_stream(str(SHOP), compression="zstd") as stream:
        for number, line in enumerate(stream.read().splitlines(), 1):
            event = json.loads(line)
            known = found.get(event["auditID"])
            if known is None or STAGES.index(event["stage"]) > STAGES.index(known[1]["stage"]):
                found[event["auditID"]] = (number, event)
    return found


def told(line: int, event: dict[str, Any]) -> tuple[Any, ...]:
    reference, status = event.get("objectRef", {}), event.get("responseStatus", {})
    user = event.get("impersonatedUser") or event["user"]
    return (
        *(event[key] for key in ("level", "stage", "verb", "requestURI")),
        (user["username"], user.get("groups", []), user.get("extra", {}), event["user"]["username"]),
        *(reference.get(key, "") for key in ("apiGroup", "apiVersion", "resource", "subresource", "namespace", "name")),
        *(reference.get(key, "") for key in ("uid", "resourceVersion")),
        (status.get("code", 0), status.get("status", ""), status.get("reason", ""), status.get("message", "")),
        *(event.get(key) for key in ("annotations", "requestObject", "responseObject")),
        line,
    )


def recorded(record: RequestRecord) -> tuple[Any, ...]:
    user = record.user
    bodies = (record.annotations, record.request_object, record.response_object)
    return (
        *(record.level, record.stage, record.verb, record.request_uri),
        (user.username, list(user.groups), {key: list(values) for key, values in user.extra.items()}, record.caller),
        *(record.api_group, record.api_version, record.resource, record.subresource, record.namespace, record.name),
        *(record.object_uid, record.object_resource_version),
        (record.code, record.status, record.status_reason, record.status_message),
        *(None if body is None else json.loads(body) for body in bodies),
        record.line,
    )


@pytest.mark.slow
def test_the_store_holds_what_the_log_says() -> None:
    expected = {audit_id: told(*found) for audit_id, found in last_stages().items()}
    with Store.open() as store:
        report = store.ingest([SHOP])
        objects = [each for part in range(store.parts) for each in store.part(part).objects()]
    assert (report.events, report.requests, report.superseded, report.rejects.total) == (15099, 14915, 184, 0)
    assert {record.audit_id: recorded(record) for each in objects for record in each} == expected
    assert all(list(each) == sorted(each, key=lambda record: record.seq) for each in objects)
    named = [
        (r.api_group, r.resource, r.namespace, r.name)
        for each in objects
        for r in each[:1]
        if r.name and r.verb != "deletecollection"
    ]
    assert len(named) == len(set(named))
