"""Answers for ImagePolicyWebhook's backend: from the log, or from recorded ImageReviews."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from replay.admission.builtin.pod.image_policy_webhook import ImageReviewStatus
from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.audit.answer.refusal import refused_by
from replay.audit.event import RequestRecord, annotations_of
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.reconstruct.snapshot import numbered_lines

PLUGIN = "ImagePolicyWebhook"
_PREFIX = "imagepolicywebhook.image-policy.k8s.io/"
_DENIED = "image policy webhook backend denied one or more images: "


class NoWebhook:
    """Reviews images; no webhook of a configuration."""

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Nothing is known of webhooks."""
        return [Missing("webhook", f"{PLUGIN} answers for no webhook")] * len(reviews)


class RecordedImages(NoWebhook):
    """The backend's answer to one request in its audit event: a refusal, or that everything was allowed."""

    def __init__(self, record: RequestRecord) -> None:
        """`record` is that of the request."""
        self._record = record

    def reviewed(self, spec: JSON) -> ImageReviewStatus | Missing:
        """See `ImageReviewer`."""
        del spec
        record = self._record
        annotations = annotations_of(record)
        own = {key.removeprefix(_PREFIX): text for key, text in annotations.items() if key.startswith(_PREFIX)}
        if record.code >= 400 and refused_by(record.status_message, record.resource) == PLUGIN:
            return ImageReviewStatus(
                allowed=False, reason=record.status_message.partition(_DENIED)[2], audit_annotations=own
            )
        if 200 <= record.code < 300 and own:
            return ImageReviewStatus(allowed=True, audit_annotations=own)
        return Missing("object.spec", "the log does not tell whether the backend of ImagePolicyWebhook was asked")


class ImageReviews(NoWebhook):
    """Recorded ImageReviews (`imagepolicy.k8s.io/v1alpha1`), by spec."""

    def __init__(self, answers: dict[bytes, ImageReviewStatus]) -> None:
        """`answers` by the `spec` of the review, its keys sorted."""
        self._answers = answers

    def reviewed(self, spec: JSON) -> ImageReviewStatus | Missing:
        """See `ImageReviewer`."""
        images = ", ".join(f"`{each.get('image') or ''}`" for each in spec.get("containers") or ())
        return self._answers.get(spec_key(spec), Missing("object.spec", f"no ImageReview of {images} is recorded"))


def image_reviews(path: Path) -> ImageReviews:
    """The reviews of a file, one a line with `spec` and `status`. Raises ReplayError with file and line."""
    answers: dict[bytes, ImageReviewStatus] = {}
    for number, line in numbered_lines(path):
        try:
            review = orjson.loads(line)
            status = review["status"]
            answer = ImageReviewStatus(
                status["allowed"] is True, str(status.get("reason") or ""), status.get("auditAnnotations") or {}
            )
            answers[spec_key(review["spec"])] = answer
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise ReplayError(
                "is no ImageReview with `spec` and `status.allowed`", path=str(path), line=number
            ) from error
    return ImageReviews(answers)


def spec_key(spec: JSON) -> bytes:
    """Return the key of a review: the `spec` with sorted keys."""
    return orjson.dumps({name: spec[name] for name in spec if spec[name]}, option=orjson.OPT_SORT_KEYS)
