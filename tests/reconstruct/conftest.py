"""Records for tests: made by hand, or read from a recording without the store."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import UserInfo

REPOSITORY = Path(__file__).parents[2]
SHARED = REPOSITORY.parent / "shared"
SAMPLE = REPOSITORY / "sample_audit" / "shop"
FULL = SHARED / "recordings" / "shop"
STAGES = ("RequestReceived", "ResponseStarted", "Panic", "ResponseComplete")

Event = dict[str, Any]


def microseconds(text: str) -> int:
    whole, _, fraction = text.rstrip("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 1_000_000 + int(fraction.ljust(6, "0") or 0)


def record_of(event: Event, seq: int = 0) -> RequestRecord:
    reference, status = event.get("objectRef") or {}, event.get("responseStatus") or {}
    user = event.get("impersonatedUser") or event.get("user") or {}
    extra = {key: tuple(values) for key, values in (user.get("extra") or {}).items()}

    def text(name: str) -> str | None:
        return orjson.dumps(event[name]).decode() if event.get(name) is not None else None

    return RequestRecord(
        seq=seq,
        audit_id=event["auditID"],
        level=event["level"],
        stage=event["stage"],
        verb=event["verb"],
        request_uri=event["requestURI"],
        user_agent=event.get("userAgent", ""),
        user=UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), extra),
        caller=(event.get("user") or {}).get("username", ""),
        api_group=reference.get("apiGroup", ""),
        api_version=reference.get("apiVersion", ""),
        resource=reference.get("resource", ""),
        subresource=reference.get("subresource", ""),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        object_uid=reference.get("uid", ""),
        object_resource_version=reference.get("resourceVersion", ""),
        code=status.get("code", 0),
        status=status.get("status", ""),
        status_reason=status.get("reason", ""),
        status_message=status.get("message", ""),
        received=microseconds(event["requestReceivedTimestamp"]),
        stage_time=microseconds(event["stageTimestamp"]),
        annotations=text("annotations"),
        request_object=text("requestObject"),
        response_object=text("responseObject"),
        file="audit.jsonl",
        line=seq + 1,
    )


def lines(path: Path) -> Iterator[Any]:
    with subprocess.Popen(["zstd", "-dc", "--long=27", str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield from map(orjson.loads, process.stdout)


def read_records(path: Path, keep: Callable[[int], bool] = lambda _: True) -> list[RequestRecord]:
    """The last stage of each request, in the order of time."""
    last: dict[str, Event] = {}
    for number, event in enumerate(lines(path)):
        known = last.get(event["auditID"])
        if keep(number) and (known is None or STAGES.index(known["stage"]) < STAGES.index(event["stage"])):
            last[event["auditID"]] = event
    ordered = sorted(last.values(), key=lambda e: (e["requestReceivedTimestamp"], e["stageTimestamp"], e["auditID"]))
    return [record_of(event, seq) for seq, event in enumerate(ordered)]


@pytest.fixture
def pod_record() -> Callable[..., RequestRecord]:
    """Makes a record about the pod `web` in `shop`; times are seconds after 2026-01-01T00:00:00Z."""

    def make(verb: str, start: float = 0, end: float | None = None, code: int = 200, **fields: Any) -> RequestRecord:
        end = start + 0.1 if end is None else end
        at = 1_767_225_600
        event: Mapping[str, Any] = {
            "auditID": f"{verb}-{start}",
            "level": "RequestResponse",
            "stage": "ResponseComplete",
            "verb": verb,
            "requestURI": fields.get("uri", "/api/v1/namespaces/shop/pods/web"),
            "user": {"username": "alice"},
            "objectRef": {
                "resource": "pods",
                "namespace": "shop",
                "name": "web",
                "apiVersion": "v1",
                **fields.get("ref", {}),
            },
            "responseStatus": {"code": code, "message": fields.get("message", ""), "reason": fields.get("reason", "")},
            "requestReceivedTimestamp": "2026-01-01T00:00:00Z",
            "stageTimestamp": "2026-01-01T00:00:00Z",
            "annotations": fields.get("annotations"),
            "requestObject": fields.get("request"),
            "responseObject": fields.get("response"),
        }
        record = record_of(dict(event))
        timed = record._replace(received=int((at + start) * 1e6), stage_time=int((at + end) * 1e6))
        return timed._replace(**fields.get("replace", {}))

    return make


@pytest.fixture
def recording() -> Callable[..., list[RequestRecord]]:
    return read_records


@pytest.fixture(params=["sample", pytest.param("full", marks=[pytest.mark.shared, pytest.mark.slow])])
def shop(request: pytest.FixtureRequest) -> Path:
    """The recording `shop`: the cut in the repository, and the whole where the corpora are."""
    folder = SAMPLE if request.param == "sample" else FULL
    if not folder.exists():
        pytest.skip("the corpora are not beside the checkout")
    return folder


@pytest.fixture
def read_lines() -> Callable[[Path], Iterator[Any]]:
    return lines
