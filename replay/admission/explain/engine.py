"""Explains policies of a policy engine that answers for a webhook in this process."""

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
    """An engine that can explain each of its policies."""

    def explain(self, review: WebhookReview) -> Sequence[PolicyExplanation]:
        """Return explanations of the policies behind a webhook, including those that do not match."""
        ...


class ToldBackend(Struct):
    """An observed backend: it collects explanations of its answers in `told`."""

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
    """Return the same backends, which add their explanations to `policies`."""
    return {name: ToldBackend(backend, policies) for name, backend in backends.items()}


def _of_answer(invocation: WebhookInvocation, answer: WebhookAnswer) -> Iterator[PolicyExplanation]:
    """Yield the policies that an answer about a partly known object names: those that deny, and undetermined ones."""
    message = answer.status.get("message") or answer.status.get("reason")
    outcomes = [(name, f"denies: {message}") for name in answer.policies]
    outcomes += [(name, f"undetermined: {missing.reason}") for name, missing in answer.unknown]
    for name, outcome in outcomes:
        binding = BindingExplanation("", outcome=outcome, place=answer.places.get(name, ()))
        policy = invocation.hook.webhook.failure_policy
        yield PolicyExplanation(name, name.partition("/")[0], policy, bindings=(binding,))
