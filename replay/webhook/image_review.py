"""Answers for ImagePolicyWebhook's backend: from the log, from recorded ImageReviews, or from a named URL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from replay.admission.builtin.pod.image import Failed, ImageReviewStatus, image_review
from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.audit.answer import refused_by
from replay.audit.event import RequestRecord, annotations_from_json
from replay.errors import ReplayError
from replay.go.format import quote
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.reconstruct.snapshot import numbered_lines
from replay.webhook.client import CallError, Client, ClientTls, Response, TimeoutCounter

PLUGIN = "ImagePolicyWebhook"
_PREFIX = "imagepolicywebhook.image-policy.k8s.io/"
_DENIED = "image policy webhook backend denied one or more images: "


class _NoWebhook:
    """A reviewer of images that answers for no webhook."""

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Return that nothing is known of webhooks."""
        return [Missing("webhook", f"{PLUGIN} answers for no webhook")] * len(reviews)


class RecordedImages(_NoWebhook):
    """The backend's answer to one request, from its audit event: a denial, or that all images were allowed."""

    def __init__(self, record: RequestRecord) -> None:
        """Keep the record of the request."""
        self._record = record

    def reviewed(self, spec: JSON) -> ImageReviewStatus | Missing:
        """See `ImageReviewer`."""
        del spec
        record = self._record
        annotations = annotations_from_json(record.annotations)
        own = {key.removeprefix(_PREFIX): text for key, text in annotations.items() if key.startswith(_PREFIX)}
        if record.code >= 400 and refused_by(record.status_message, record.resource) == PLUGIN:
            return ImageReviewStatus(
                allowed=False, reason=record.status_message.partition(_DENIED)[2], audit_annotations=own
            )
        if 200 <= record.code < 300 and own:
            return ImageReviewStatus(allowed=True, audit_annotations=own)
        return Missing(
            "object.spec", "the log does not show whether the server called the backend of ImagePolicyWebhook"
        )


class ImageReviews(_NoWebhook):
    """Recorded ImageReviews (`imagepolicy.k8s.io/v1alpha1`), by spec."""

    def __init__(self, answers: dict[bytes, ImageReviewStatus]) -> None:
        """Keep the answers by the `spec` of the review, with sorted keys."""
        self._answers = answers

    def reviewed(self, spec: JSON) -> ImageReviewStatus | Missing:
        """See `ImageReviewer`."""
        images = ", ".join(f"`{each.get('image') or ''}`" for each in spec.get("containers") or ())
        return self._answers.get(
            _spec_key(spec), Missing("object.spec", f"the recording has no ImageReview for {images}")
        )


def image_reviews(path: Path) -> ImageReviews:
    """Return the reviews of a file, one a line with `spec` and `status`. Raise ReplayError with file and line."""
    answers: dict[bytes, ImageReviewStatus] = {}
    for number, line in numbered_lines(path):
        try:
            review = orjson.loads(line)
            status = review["status"]
            answer = ImageReviewStatus(
                status["allowed"] is True, str(status.get("reason") or ""), status.get("auditAnnotations") or {}
            )
            answers[_spec_key(review["spec"])] = answer
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise ReplayError(
                "is no ImageReview with `spec` and `status.allowed`", path=str(path), line=number
            ) from error
    return ImageReviews(answers)


def _spec_key(spec: JSON) -> bytes:
    """Return the key of a review: its `spec` without empty fields, with sorted keys."""
    return orjson.dumps({name: spec[name] for name in spec if spec[name]}, option=orjson.OPT_SORT_KEYS)


TIMEOUT: Final = 30
"""The seconds to wait for an answer (`defaultRequestTimeout`)."""

_KIND: Final = "ImageReview"
_API_VERSION: Final = "imagepolicy.k8s.io/v1alpha1"
_HEADER: Final = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_GO_KINDS: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_Value = TypeVar("_Value")


class ImageEndpoint(_NoWebhook):
    """A client of one URL. Each question is sent once."""

    def __init__(self, url: str, timeout: int = TIMEOUT) -> None:
        """Prepare a client. `timeout` is in seconds. Nothing is sent yet.

        Raise `ReplayError` for a URL that the API server would not call.
        """
        self._client = Client.from_url(url, "https", "http")
        self._timeout = timeout
        self._answers: dict[bytes, ImageReviewStatus | Failed] = {}
        self._patience = TimeoutCounter()

    def __reduce__(self) -> tuple[type[ImageEndpoint], tuple[str, int]]:
        """Pickle the settings only. Another process makes its own calls."""
        return ImageEndpoint, (self._client.url, self._timeout)

    def reviewed(self, spec: JSON) -> ImageReviewStatus | Failed | Missing:
        """Return the answer (see `ImageReviewer`), or `Missing` after the endpoint has failed too often."""
        key = _spec_key(spec)
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
    """Return the status in a response (`rest.Result.Into`). Raise `CallError`."""
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
    """Return the document of a response. Raise `CallError`."""
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
    """Return a value of a type, or its empty value for null. Raise `CallError` in the words of Go's decoder."""
    if value is None:
        return kind()
    if type(value) is not kind:
        json_type = _GO_KINDS[type(value)]
        raise CallError(f"json: cannot unmarshal {json_type} into Go struct field {field} of type {go_type}")
    return value
