"""AdmissionReview: content sent to a webhook, and answers accepted (`webhook/request/admissionreview.go`)."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping
from typing import Any

import orjson

from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.go.format import quote
from replay.json import decode_json

_API_VERSION = "admission.k8s.io/v1"


class ResponseError(Exception):
    """The answer of a webhook is unusable; `str()` is the server's text after `failed calling webhook "name": `.

    `is_late`: none came in time.
    """

    def __init__(self, text: str, *, is_late: bool = False) -> None:
        """Keep what went wrong."""
        super().__init__(text)
        self.is_late = is_late


class UndecodablePatchError(ResponseError):
    """The patch in a response is no JSON patch; `reason` says why."""

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        super().__init__(f"received undecodable patch in webhook response: {reason}")
        self.reason = reason


def admission_review(review: WebhookReview) -> tuple[str, bytes]:
    """`(uid, body)` of a request; equal requests get equal uids, so that a run can be repeated."""
    content = orjson.dumps(review.request, option=orjson.OPT_SORT_KEYS)
    uid = str(uuid.uuid5(uuid.NAMESPACE_OID, content.hex()))
    request = {"uid": uid, **review.request}
    return uid, orjson.dumps({"kind": "AdmissionReview", "apiVersion": _API_VERSION, "request": request})


def answer_from(body: bytes, uid: str, *, mutating: bool) -> WebhookAnswer:
    """The answer in the body of a response. Raises `ResponseError`."""
    response = _verified(_decoded(body), uid, mutating=mutating)
    status = response.get("status")
    return WebhookAnswer(
        allowed=response.get("allowed") is True,
        status=status if isinstance(status, dict) else {},
        patch=_patch(response),
        warnings=tuple(_texts(response.get("warnings"))),
        audit_annotations=_annotations(response.get("auditAnnotations")),
    )


def _decoded(body: bytes) -> Mapping[str, Any]:
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        text = f"couldn't get version/kind; json parse error: {error}"
        raise ResponseError(f"failed to call webhook: {text}") from None
    if not isinstance(review, dict):
        raise ResponseError("failed to call webhook: couldn't get version/kind; json parse error: not an object")
    return review


def _verified(review: Mapping[str, Any], uid: str, *, mutating: bool) -> Mapping[str, Any]:
    """The `response` of a review that belongs to the request."""
    api_version, kind = review.get("apiVersion"), review.get("kind")
    response = review.get("response")
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    if response.get("uid") != uid:
        raise _invalid(f"expected response.uid={quote(uid)}, got {quote(str(response.get('uid') or ''))}")
    if (api_version, kind) != (_API_VERSION, "AdmissionReview"):
        raise _invalid(
            f"expected webhook response of {_API_VERSION}, Kind=AdmissionReview, got {api_version}, Kind={kind}"
        )
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating:
        if patch:
            raise _invalid("validating webhook may not return response.patch")
        if patch_type is not None:
            raise _invalid("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise _invalid('webhook returned invalid response.patchType of ""')
    return response


def _invalid(text: str) -> ResponseError:
    return ResponseError(f"received invalid webhook response: {text}")


def _patch(response: Mapping[str, Any]) -> tuple[Any, ...]:
    """The operations of `patch`, which is base64 of a JSON patch; a refusal's patch is not looked at."""
    text = response.get("patch")
    if not text or response.get("allowed") is not True:
        return ()
    try:
        operations = decode_json(base64.b64decode(text, validate=True))
    except (binascii.Error, orjson.JSONDecodeError, TypeError, ValueError) as error:
        raise UndecodablePatchError(str(error)) from None
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise UndecodablePatchError("not a list of operations")
    if operations and response.get("patchType") != "JSONPatch":
        raise ResponseError(f"unsupported patch type {quote(str(response.get('patchType')))}")
    return tuple(operations)


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _annotations(value: Any) -> dict[str, str]:
    return {key: text for key, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}
