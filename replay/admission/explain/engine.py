"""The policies behind a webhook that a policy engine answers for in this process, explained as the engine tells of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from replay.admission.explain.explanation import BindingExplanation, PolicyExplanation
from replay.admission.webhook.answer import RecallingBackend, WebhookAnswer, WebhookBackend, WebhookReview
from replay.admission.webhook.plugin import Backends
from replay.admission.webhook.webhooks import Phase, WebhookInvocation
from replay.kube.attributes import Attributes, Missing


@runtime_checkable
class ExplainingBackend(Protocol):
    """An engine that can tell of each of its policies."""

    def explain(self, review: WebhookReview) -> Sequence[PolicyExplanation]:
        """The policies behind a webhook, those that do not match too."""
        ...


class ToldBackend(Struct):
    """A backend that is watched: what it answers is also explained, in `told`."""

    backend: WebhookBackend
    told: list[PolicyExplanation]

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """See `WebhookBackend.review`."""
        if isinstance(self.backend, ExplainingBackend):
            for review in reviews:
                self.told += self.backend.explain(review)
        return self.backend.review(reviews)

    def recall(
        self, invocation: WebhookInvocation, phase: Phase, attributes: Attributes
    ) -> WebhookAnswer | Missing | None:
        """See `RecallingBackend.recall`."""
        if not isinstance(self.backend, RecallingBackend):
            return None
        answer = self.backend.recall(invocation, phase, attributes)
        if isinstance(self.backend, ExplainingBackend) and isinstance(answer, WebhookAnswer):
            self.told += _of_answer(invocation, answer)
        return answer


def told(backends: Backends, policies: list[PolicyExplanation]) -> Backends:
    """The same backends, which add what they explain to `policies`."""
    return {name: ToldBackend(backend, policies) for name, backend in backends.items()}


def _of_answer(invocation: WebhookInvocation, answer: WebhookAnswer) -> Iterator[PolicyExplanation]:
    """The policies that an answer about an object names that is known in part: those that deny, and that cannot be decided."""
    message = answer.status.get("message") or answer.status.get("reason")
    outcomes = [(name, f"denies: {message}") for name in answer.policies]
    outcomes += [(name, f"undetermined: {missing.reason}") for name, missing in answer.unknown]
    for name, outcome in outcomes:
        binding = BindingExplanation("", outcome=outcome, place=answer.places.get(name, ()))
        policy = invocation.hook.webhook.failure_policy
        yield PolicyExplanation(name, name.partition("/")[0], policy, bindings=(binding,))
