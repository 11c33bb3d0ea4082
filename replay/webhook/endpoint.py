"""Client of a named admission webhook: its AdmissionReview and its response (`webhook/request/admissionreview.go`)."""

from __future__ import annotations

import base64
import binascii
import ssl
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.go.format import quote
from replay.json import decode_json
from replay.kube.admissionregistration import Webhook
from replay.kube.attributes import Missing
from replay.webhook.client import CallError, Client, ClientTls

_API_VERSION = "admission.k8s.io/v1"


class _ResponseError(Exception):
    """The answer of a webhook is unusable. `str()` is the server's text after `failed calling webhook "name": `.

    `is_late` says that none came in time.
    """

    def __init__(self, text: str, *, is_late: bool = False) -> None:
        """Keep the error."""
        super().__init__(text)
        self.is_late = is_late


class _UndecodablePatchError(_ResponseError):
    """The patch in a response is not a JSON patch. `reason` says why."""

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        super().__init__(f"received undecodable patch in webhook response: {reason}")
        self.reason = reason


def _admission_review(review: WebhookReview) -> tuple[str, bytes]:
    """Return `(uid, body)` of a request. Equal requests get equal UIDs, so that a run can be repeated."""
    content = orjson.dumps(review.request, option=orjson.OPT_SORT_KEYS)
    uid = str(uuid.uuid5(uuid.NAMESPACE_OID, content.hex()))
    request = {"uid": uid, **review.request}
    return uid, orjson.dumps({"kind": "AdmissionReview", "apiVersion": _API_VERSION, "request": request})


def _answer_from(body: bytes, uid: str, *, mutating: bool) -> WebhookAnswer:
    """Return the answer in the body of a response. Raise `_ResponseError`."""
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
        raise _ResponseError(f"failed to call webhook: {text}") from None
    if not isinstance(review, dict):
        raise _ResponseError("failed to call webhook: couldn't get version/kind; json parse error: not an object")
    return review


def _verified(review: Mapping[str, Any], uid: str, *, mutating: bool) -> Mapping[str, Any]:
    """Return the `response` of a review after the server's checks. Raise `_ResponseError`."""
    # The checks are in the order of `VerifyAdmissionResponse`.
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


def _invalid(text: str) -> _ResponseError:
    return _ResponseError(f"received invalid webhook response: {text}")


def _patch(response: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the operations of `patch`, which is base64 of a JSON patch. The patch of a denial is ignored."""
    text = response.get("patch")
    if not text or response.get("allowed") is not True:
        return ()
    try:
        operations = decode_json(base64.b64decode(text, validate=True))
    except (binascii.Error, orjson.JSONDecodeError, TypeError, ValueError) as error:
        raise _UndecodablePatchError(str(error)) from None
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise _UndecodablePatchError("not a list of operations")
    if operations and response.get("patchType") != "JSONPatch":
        raise _ResponseError(f"unsupported patch type {quote(str(response.get('patchType')))}")
    return tuple(operations)


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _annotations(value: Any) -> dict[str, str]:
    return {key: text for key, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}


class EndpointBackend:
    """A client of one URL, with at most `concurrency` calls at a time."""

    def __init__(self, url: str, *, concurrency: int = 8) -> None:
        """Prepare a client. Nothing is sent yet. Raise `ReplayError` for a URL that the API server would not call."""
        self._client = Client.from_url(url, "https")
        self._concurrency = concurrency
        self._executor: ThreadPoolExecutor | None = None

    def __reduce__(self) -> tuple[type[EndpointBackend], tuple[str], dict[str, int]]:
        """Pickle the URL only. Another process opens its own connections."""
        return EndpointBackend, (self._client.url,), {"_concurrency": self._concurrency}

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Send all reviews concurrently, within a limit."""
        # One review needs no thread.
        if len(reviews) == 1:
            return [self._ask(reviews[0])]
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._concurrency, thread_name_prefix="webhook")
        return list(self._executor.map(self._ask, reviews))

    def close(self) -> None:
        """End the threads."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _ask(self, review: WebhookReview) -> WebhookAnswer | Missing:
        webhook = review.invocation.hook.webhook
        if webhook.side_effects not in {"None", "NoneOnDryRun"}:
            return Missing("webhook", f"`{webhook.name}` has side effects, and replay sends only dry runs")
        if "v1" not in webhook.admission_review_versions:
            return Missing("webhook", f"`{webhook.name}` does not support AdmissionReview v1")
        uid, body = _admission_review(review)
        try:
            answer = self._post(webhook, body)
            return _answer_from(answer, uid, mutating=review.phase == "mutating")
        except _UndecodablePatchError as error:
            return WebhookAnswer(error=str(error), undecodable_patch=error.reason)
        except _ResponseError as error:
            return WebhookAnswer(error=str(error), is_late=error.is_late)

    def _post(self, webhook: Webhook, body: bytes) -> bytes:
        """Return the body of the response. Raise `_ResponseError`."""
        tls = _tls(webhook, self._client.host)
        try:
            return self._client.post(body, webhook.timeout_seconds, tls).content
        except CallError as error:
            raise _ResponseError(f"failed to call webhook: {error}", is_late=error.is_late) from None


def _tls(webhook: Webhook, host: str) -> ClientTls:
    """Return the TLS settings.

    Only the webhook's `caBundle` is trusted if it has one. The server name is the one that the API server uses.
    """
    config = webhook.client_config
    bundle = config.ca_bundle.decode("ascii", "replace") if config.ca_bundle else None
    try:
        context = ssl.create_default_context(cadata=bundle)
    except ssl.SSLError:
        raise _ResponseError("could not get REST client: unable to load root certificates") from None
    service = config.service
    return ClientTls(context, f"{service.name}.{service.namespace}.svc" if service is not None else host)
