"""AdmissionReviews as a webhook records them: complete requests (fields of `k8s.io/api/admission/v1`).

A document is an AdmissionReview, an AdmissionRequest, one of them under `review` or `request`, or `{"mutating": …,
"validating": …}` with the request of both phases, null for a phase that it did not reach. It becomes an event with the
review as its response. A review has no time. Its time is the newest time of its object, or that of the review before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

REVIEW = "AdmissionReview"
_VERBS = {"CREATE": "create", "UPDATE": "update", "DELETE": "delete", "CONNECT": "create"}
_NO_TIME = "2020-01-01T00:00:00Z"
_TOO_DEEP = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1"}\n'
_PHASES = ("validating", "mutating")


def is_review(value: Any) -> bool:
    """Return whether a decoded document has an admission request."""
    return _request_of(value) is not None


def events_of_reviews(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield an event for each review (one per line, or one document over all lines). Other lines stay unchanged."""
    time = _NO_TIME
    source = iter(lines)
    for number, line in enumerate(source, 1):
        text = line
        if number == 1 and json_value(text) is None:
            text = b"".join((line, *source))
        value = json_value(text)
        request = _request_of(value)
        if request is None:
            yield text
            continue
        time = max((*_times(request), time if time != _NO_TIME else ""), default="") or _NO_TIME
        try:
            yield orjson.dumps(_event(value, request, time, number)) + b"\n"
        except TypeError:  # nested deeper than what can be written
            yield _TOO_DEEP


def json_value(text: bytes | str) -> Any:
    """Return the value of a JSON text, or None if it is not JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _request_of(value: Any) -> dict[str, Any] | None:
    """Return the request of a document, as in its last phase, or None."""
    if not isinstance(value, dict):
        return None
    inner = value.get("review")
    for each in (value, value.get("request"), inner, _under(inner), *(value.get(phase) for phase in _PHASES)):
        if isinstance(each, dict) and _text(each.get("operation")) in _VERBS and isinstance(each.get("resource"), dict):
            return each
    return None


def _under(review: Any) -> Any:
    return review.get("request") if isinstance(review, dict) else None


def _event(value: dict[str, Any], request: dict[str, Any], time: str, number: int) -> dict[str, Any]:
    review = value["review"] if isinstance(value.get("review"), dict) else value
    request_resource = request.get("requestResource")
    resource = request_resource if isinstance(request_resource, dict) else request["resource"]
    phases = {"mutating": value.get("mutating"), "isValidated": value.get("validating") is not None}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": _text(value.get("auditID"))
        or _text(request.get("uid"))
        or _text(value.get("id"))
        or f"line {number}",
        "stage": "ResponseComplete",
        "verb": _VERBS[request["operation"]],
        "user": request.get("userInfo") or {},
        "objectRef": {
            "resource": resource.get("resource"),
            "apiGroup": resource.get("group"),
            "apiVersion": resource.get("version"),
            "subresource": request.get("requestSubResource") or request.get("subResource"),
            "namespace": request.get("namespace"),
            "name": request.get("name"),
        },
        "responseStatus": _answer(review.get("response")),
        "requestObject": request.get("object"),
        "responseObject": {"kind": REVIEW, "request": request, **(phases if "mutating" in value else {})},
        "requestReceivedTimestamp": time,
        "stageTimestamp": time.replace("Z", ".999999Z"),  # times of objects are those of whole seconds
    }


def _answer(response: Any) -> Any:
    """Return the status of a webhook's refusal, or None."""
    if not isinstance(response, dict) or response.get("allowed") is not False:
        return None
    status = response.get("status")
    return {"status": "Failure", "code": 403, **(status if isinstance(status, dict) else {})}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _times(request: dict[str, Any]) -> Iterator[str]:
    """Yield the times at which the objects of a request were written, in one sortable text form."""
    for root in ("object", "oldObject"):
        obj = request.get(root)
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        if not isinstance(metadata, dict):
            continue
        writes = metadata.get("managedFields")
        times = [each.get("time") for each in writes if isinstance(each, dict)] if isinstance(writes, list) else []
        yield from filter(
            None, map(_text, (metadata.get("creationTimestamp"), metadata.get("deletionTimestamp"), *times))
        )
