"""Client of ImagePolicyWebhook's backend at a named URL: POST of an ImageReview.

As the API server does (`plugin/pkg/admission/imagepolicy`, `apiserver/pkg/util/webhook`): `imagepolicy.k8s.io/v1alpha1`
as JSON, with a limit of 30 seconds. A failed call is not repeated, although the server repeats some.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, TypeVar

import orjson

from replay.admission.builtin.pod.image_policy_webhook import Failed, ImageReviewStatus, image_review
from replay.go.format import quote
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.webhook.client import CallError, Client, ClientTls, Response
from replay.webhook.image_review import NoWebhook, spec_key
from replay.webhook.timeout_counter import TimeoutCounter

TIMEOUT: Final = 30
"""Seconds for an answer (`defaultRequestTimeout`)."""

_KIND: Final = "ImageReview"
_API_VERSION: Final = "imagepolicy.k8s.io/v1alpha1"
_HEADER: Final = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_GO_KINDS: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_Value = TypeVar("_Value")


class ImageEndpoint(NoWebhook):
    """Asks one URL, each question once."""

    def __init__(self, url: str, timeout: int = TIMEOUT) -> None:
        """`timeout` in seconds; nothing is sent yet. Raises `ReplayError` for a URL that the API server would not call."""
        self._client = Client.of(url, "https", "http")
        self._timeout = timeout
        self._answers: dict[bytes, ImageReviewStatus | Failed] = {}
        self._patience = TimeoutCounter()

    def __reduce__(self) -> tuple[type[ImageEndpoint], tuple[str, int]]:
        """Another process asks for itself."""
        return ImageEndpoint, (self._client.url, self._timeout)

    def reviewed(self, spec: JSON) -> ImageReviewStatus | Failed | Missing:
        """See `ImageReviewer`; `Missing` once the endpoint was given up."""
        key = spec_key(spec)
        review = self._answers.get(key)
        if review is not None:
            return review
        if self._patience.is_over:
            return self._patience.missing("object.spec")
        answer = self._answers[key] = self._ask(spec)
        return answer

    def _ask(self, spec: JSON) -> ImageReviewStatus | Failed:
        body = orjson.dumps(image_review(spec), option=orjson.OPT_APPEND_NEWLINE)
        try:
            answer = _answer(self._client.post(body, self._timeout, self._tls))
        except CallError as error:
            self._patience.note(is_late=error.is_late)
            return Failed(str(error), error.is_forbidden)
        self._patience.note(is_late=False)
        return answer

    @cached_property
    def _tls(self) -> ClientTls | None:
        """Return this machine's trusted authorities. The server's kubeconfig is not available."""
        return self._client.tls


def _answer(response: Response) -> ImageReviewStatus:
    """The status in a response (`rest.Result.Into`). Raises `CallError`."""
    review = _decoded(response)
    kind, version = review.get("kind") or _KIND, review.get("apiVersion") or _API_VERSION
    if (kind, version) != (_KIND, _API_VERSION):
        where = 'in scheme "pkg/runtime/scheme.go:111"'
        raise CallError(f"no kind {quote(str(kind))} is registered for version {quote(str(version))} {where}")
    status = _typed(review.get("status"), dict, "ImageReview.status", "v1alpha1.ImageReviewStatus")
    field = "ImageReviewStatus.status"
    annotations = _typed(status.get("auditAnnotations"), dict, f"{field}.auditAnnotations", "map[string]string")
    return ImageReviewStatus(
        _typed(status.get("allowed"), bool, f"{field}.allowed", "bool"),
        _typed(status.get("reason"), str, f"{field}.reason", "string"),
        {k: _typed(v, str, f"{field}.auditAnnotations", "string") for k, v in annotations.items()},
    )


def _decoded(response: Response) -> JSON:
    """The document of a response. Raises `CallError`."""
    content = response.content
    if not content:
        content_type = response.content_type or "application/json"
        raise CallError(f"0-length response with status code: {response.code} and content type: {content_type}")
    try:
        review = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if content.lstrip()[:1] in {b"{", b"["}:
            raise CallError(f"couldn't get version/kind; json parse error: {error}") from None
        review = ""  # the server takes it for YAML, in which any words are a string
    if review is None:
        return {}
    if not isinstance(review, dict):
        text = f"json: cannot unmarshal {_GO_KINDS[type(review)]} into Go value of type {_HEADER}"
        raise CallError(f"couldn't get version/kind; json parse error: {text}")
    return review


def _typed(value: Any, kind: type[_Value], field: str, go_type: str) -> _Value:
    """A value of a kind, that which is nothing for null. Raises `CallError` as Go's decoder words it."""
    if value is None:
        return kind()
    if type(value) is not kind:
        json_type = _GO_KINDS[type(value)]
        raise CallError(f"json: cannot unmarshal {json_type} into Go struct field {field} of type {go_type}")
    return value
