"""Lines of an audit log, and what of them is read and rejected."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from replay.audit.event import RequestRecord
from replay.audit.store import Store


def event(number: int, **fields: Any) -> bytes:
    """One line; `fields` replace those of a plain creation of a pod."""
    moment = f"2026-01-01T00:00:{number:02}"
    plain = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/n/pods",
        "verb": "create",
        "user": {"username": "alice", "groups": ["g"]},
        "objectRef": {"resource": "pods", "namespace": "n", "name": f"p{number}", "apiVersion": "v1"},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": f"{moment}.000001Z",
        "stageTimestamp": f"{moment}.500000Z",
    }
    return json.dumps({**plain, **fields}).encode()


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def records(store: Store) -> list[RequestRecord]:
    return [record for part in range(store.parts) for record in store.part(part).records()]


def rejects(store: Store) -> list[tuple[int, str]]:
    return [(reject.line, str(reject.reason)) for reject in store.rejects()]
