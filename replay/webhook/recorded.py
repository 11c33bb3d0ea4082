"""Recorded answers of webhooks, if the request is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.admission.webhook.webhooks import WebhookInvocation
from replay.audit.answer import Observed, WebhookMutation, observe
from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.kcp.annotation import shown_to_webhook
from replay.kube.admissionregistration import Phase
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.json_patch import JSONPatchError, apply, equal

_FIX = "audit at level Request or RequestResponse, or call the webhook (--webhook NAME=URL)"


class RecordedBackend:
    """The answers of webhooks to one request, from its audit event.

    A mutating webhook leaves an annotation, and at level Request its patch. A validating webhook leaves a trace only if
    it denied. It allowed every request that succeeded.
    """

    def __init__(self, record: RequestRecord, original: Attributes | Missing, attributes: Attributes) -> None:
        """Keep the recorded attributes: `original` of the mutating phase, `attributes` of the validating phase."""
        self._record = record
        self._observed: Observed = observe(record)
        self._validated = attributes.object
        self._original = None if isinstance(original, Missing) else original.object
        self._objects = {
            "mutating": original if isinstance(original, Missing) else shown_to_webhook(original),
            "validating": shown_to_webhook(attributes),
        }

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Return the recorded answers, or `Missing` if there is none or the request differs."""
        return [self._answer(review) for review in reviews]

    def recall(
        self, invocation: WebhookInvocation, phase: Phase, attributes: Attributes
    ) -> WebhookAnswer | Missing | None:
        """Return a webhook's answer about the log's object, which may be partly unknown.

        For a mutating webhook this works only if it changed nothing, because a patch needs the whole object.
        """
        if phase == "mutating":
            entry = self._entry(invocation)
            is_same = attributes.object is self._original
            return (
                WebhookAnswer(allowed=True) if is_same and entry is not None and self._passed_unchanged(entry) else None
            )
        if attributes.object is not self._validated:
            return None
        return self._validating(invocation.hook.webhook.name)

    def _passed_unchanged(self, entry: WebhookMutation) -> bool:
        """Return whether a mutating webhook answered, and neither changed nor denied the request."""
        failed = any(value == entry.webhook for value in self._observed.failed_open.values())
        return not entry.mutated and not failed and self._refusal(entry.webhook) is None

    def _entry(self, invocation: WebhookInvocation) -> WebhookMutation | None:
        """Return the log's entry on the first call of a mutating webhook, or None."""
        names = (invocation.hook.configuration, invocation.hook.webhook.name)
        return next((each for each in self._observed.mutations if (each.configuration, each.webhook) == names), None)

    def _answer(self, review: WebhookReview) -> WebhookAnswer | Missing:
        if review.phase == "mutating":
            return self._mutating(review)
        if not _is_same(self._objects["validating"], review.request):
            return Missing("webhook", "the log has its answer for a different object only")
        return self._validating(review.invocation.hook.webhook.name)

    def _validating(self, name: str) -> WebhookAnswer | Missing:
        refusal = self._refusal(name)
        if refusal is not None:
            return refusal
        # A validating webhook that allows leaves no annotation. The success of the request proves its answer.
        if 200 <= self._record.code < 300:
            return WebhookAnswer(allowed=True)
        return Missing("webhook", "the log does not show whether the server called it")

    def _mutating(self, review: WebhookReview) -> WebhookAnswer | Missing:
        hook = review.invocation.hook
        entry = self._entry(review.invocation)
        if entry is None:
            return Missing("webhook", "the log does not show that the server called it")
        if entry.mutated and entry.patch is None:
            return Missing("webhook", "it changed the object, and the log does not have the patch", _FIX)
        if not _is_same(self._object_shown_to(entry), review.request):
            return Missing("webhook", "the log has its answer for a different object only")
        if any(value == hook.webhook.name for value in self._observed.failed_open.values()):
            return WebhookAnswer(error="the call had failed at the time")
        return self._refusal(review.invocation.hook.webhook.name) or WebhookAnswer(
            allowed=True, patch=entry.patch or ()
        )

    def _object_shown_to(self, entry: WebhookMutation) -> JSON | PartialObject | Missing | None:
        """Return the object that a mutating webhook got: with the patches of the webhooks before it."""
        value = self._objects["mutating"]
        for earlier in self._observed.mutations:
            # The key of an annotation numbers the call: `round_R_index_I`. Lower numbers ran earlier.
            if (earlier.round, earlier.index) >= (entry.round, entry.index) or not earlier.mutated:
                continue
            if earlier.patch is None or isinstance(value, Missing | PartialObject):
                return Missing("object", "the log does not have the patches of earlier webhooks")
            try:
                value = apply(value, earlier.patch)
            except JSONPatchError:
                return Missing("object", "the recorded patch of an earlier webhook does not apply to the object")
        return value

    def _refusal(self, name: str) -> WebhookAnswer | None:
        denial = self._observed.denial
        if denial is None or not denial.webhook or denial.policy != name:
            return None
        status: Mapping[str, Any] = {
            "message": denial.message,
            "reason": self._record.status_reason,
            "code": self._record.code,
        }
        return WebhookAnswer(allowed=False, status=status)


def _is_same(recorded: JSON | PartialObject | Missing | None, request: Mapping[str, Any]) -> bool:
    return not isinstance(recorded, Missing | PartialObject) and equal(recorded, request.get("object"))
