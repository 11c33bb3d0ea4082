"""Explains which webhooks of one set and phase are called for a request, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from msgspec import Struct

from replay.admission.conversion import Object
from replay.admission.decision import Decision, Denial
from replay.admission.effects import ADMITTED, Effects
from replay.admission.explain.explanation import (
    BindingExplanation,
    Explanation,
    ExpressionStep,
    PolicyExplanation,
    WebhookExplanation,
    explain_conditions,
    skipped,
)
from replay.admission.inputs import Inputs, MatchConditionsResult
from replay.admission.ordered.plugin import Asking
from replay.admission.webhook.answer import RecallingBackend, WebhookAnswer, WebhookBackend, WebhookReview
from replay.admission.webhook.plugin import Backends, MutatingWebhookPlugin, validate
from replay.admission.webhook.webhooks import WebhookAdmission, WebhookHook, WebhookInvocation, match_resources
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.kube.admissionregistration import ManifestSet, Phase
from replay.kube.attributes import Attributes, Missing
from replay.kube.lister import Lister
from replay.matching.matcher import MatchResult
from replay.matching.reason import mismatch_reason
from replay.matching.rules import is_excluded_from_api_webhooks, is_excluded_from_webhooks

# Explains policies of a policy engine that answers for a webhook in this process.


@runtime_checkable
class ExplainingBackend(Protocol):
    """An engine that can explain each of its policies."""

    def explain(self, review: WebhookReview) -> Sequence[PolicyExplanation]:
        """Return explanations of the policies behind a webhook, including those that do not match."""
        ...


class ExplainedBackend(Struct):
    """An observed backend: it collects explanations of its answers in `explanations`."""

    backend: WebhookBackend
    explanations: list[PolicyExplanation]

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """See `WebhookBackend.review`."""
        if isinstance(self.backend, ExplainingBackend):
            for review in reviews:
                self.explanations += self.backend.explain(review)
        return self.backend.review(reviews)

    def recall(
        self, invocation: WebhookInvocation, phase: Phase, attributes: Attributes
    ) -> WebhookAnswer | Missing | None:
        """See `RecallingBackend.recall`."""
        if not isinstance(self.backend, RecallingBackend):
            return None
        answer = self.backend.recall(invocation, phase, attributes)
        if isinstance(self.backend, ExplainingBackend) and isinstance(answer, WebhookAnswer):
            self.explanations += _policies_of_answer(invocation, answer)
        return answer


def with_explanations(backends: Backends, policies: list[PolicyExplanation]) -> Backends:
    """Return the same backends, which add their explanations to `policies`."""
    return {name: ExplainedBackend(backend, policies) for name, backend in backends.items()}


def _policies_of_answer(invocation: WebhookInvocation, answer: WebhookAnswer) -> Iterator[PolicyExplanation]:
    """Yield the policies that an answer about a partly known object names: those that deny, and undetermined ones."""
    message = answer.status.get("message") or answer.status.get("reason")
    outcomes = [(name, f"denies: {message}") for name in answer.policies]
    outcomes += [(name, f"undetermined: {missing.reason}") for name, missing in answer.unknown]
    for name, outcome in outcomes:
        binding = BindingExplanation("", outcome=outcome, place=answer.places.get(name, ()))
        policy = invocation.hook.webhook.failure_policy
        yield PolicyExplanation(name, name.partition("/")[0], policy, bindings=(binding,))


SAME = "matches; in both sets, so the recorded answer is used"


class _Called(Struct):
    """Observations about one webhook."""

    mismatch: str = ""
    steps: tuple[ExpressionStep, ...] = ()
    answer: WebhookInvocation | Denial | Missing | None = None


class WebhookWatch:
    """Observer of one pass over a set's webhooks."""

    def __init__(self, admission: WebhookAdmission, lister: Lister) -> None:
        """Start empty."""
        self._admission = admission
        self._lister = lister
        self._calls: dict[tuple[str, str], _Called] = {}
        self._hook: WebhookHook | None = None

    def matched(self, hook: WebhookHook, match: MatchResult, attributes: Attributes) -> None:
        """See `WebhookObserver.matched`."""
        self._hook = hook
        reason = ""
        if match is None:
            reason = mismatch_reason(match_resources(hook.webhook), self._admission.matcher, attributes, self._lister)
        self._calls[hook.configuration, hook.webhook.name] = _Called(reason)

    def conditions(
        self,
        compiler: ExpressionCompiler,
        compiled: Sequence[CompiledExpression],
        inputs: Inputs,
        result: MatchConditionsResult,
    ) -> None:
        """See `ConditionsObserver.conditions`."""
        assert self._hook is not None
        if result.matches or result.error:
            return
        webhook, key = self._hook.webhook, (self._hook.configuration, self._hook.webhook.name)
        steps = explain_conditions(webhook.match_conditions, compiler, compiled, inputs)
        self._calls[key] = _Called(skipped(result, steps), tuple(step for step in steps if step.value is False))

    def called(self, hook: WebhookHook, answer: WebhookInvocation | Denial | Missing) -> None:
        """See `WebhookObserver.called`."""
        self._calls[hook.configuration, hook.webhook.name].answer = answer

    def calls(self) -> tuple[str, ...]:
        """Return the names of the called webhooks, in order."""
        return tuple(name for (_, name), call in self._calls.items() if isinstance(call.answer, WebhookInvocation))

    def explained(
        self, hooks: Sequence[WebhookHook], hooks_asked: Sequence[WebhookHook], attributes: Attributes, refused: str
    ) -> Iterator[WebhookExplanation]:
        """Yield explanations of all webhooks of a set.

        `refused` says why the chain did not call matching ones, empty if it did.

        For a webhook that was not called, the explanation says whether it matches `attributes`.
        """
        keys = {(hook.configuration, hook.webhook.name) for hook in hooks_asked}
        for hook in hooks:
            key = hook.configuration, hook.webhook.name
            reason = self._excluded(hook, attributes)
            if not reason and key not in self._calls:
                self._admission.should_call(hook, attributes, self._lister, self)
            call = self._calls.get(key, _Called())
            reason = reason or call.mismatch
            if not reason and key not in keys:
                reason = SAME
            elif not reason and isinstance(call.answer, Denial):
                reason, refused = f"the request is refused: {call.answer.message}", f"`{key[1]}` refuses the request"
            elif not reason and isinstance(call.answer, Missing):
                reason = f"undetermined: it depends on `{call.answer.path}`: {call.answer.reason}"
            elif not reason and refused and call.answer is None:
                reason = f"not asked: {refused}"
            yield WebhookExplanation(key[1], key[0], self._admission.phase, reason, call.steps)

    def _excluded(self, hook: WebhookHook, attributes: Attributes) -> str:
        resource = attributes.resource
        if is_excluded_from_webhooks(resource, skips_reviews=hook.skips_reviews):
            return f"the server runs no policy or webhook for {resource.resource}"
        if is_excluded_from_api_webhooks(attributes.kind) and not hook.static:
            return f"the server calls only static webhooks for {resource.resource}"
        return ""


@dataclass
class MutatingWebhookWatch:
    """Observes the mutating webhooks of one set on one request. `hooks` are all webhooks of the set."""

    plugin: MutatingWebhookPlugin
    hooks: Sequence[WebhookHook]
    candidates: Sequence[WebhookHook]
    original: Attributes
    lister: Lister
    explanations: list[PolicyExplanation]
    """Explanations of engine policies, as far as engines were called."""

    def __post_init__(self) -> None:
        """Start empty."""
        self._shown = self.original
        self._explained_calls: list[tuple[PolicyExplanation, ...]] = []
        self._passes: list[WebhookWatch] = []

    @property
    def effects(self) -> Effects:
        """Return their effects."""
        return self.plugin.effects

    def admit(self, value: Object, *, reinvoke: bool) -> tuple[Object, bool]:
        """Run one pass."""
        if not reinvoke:
            self._shown = self.original.with_object(value)
        watch = self.plugin.observer = WebhookWatch(self.plugin.admission, self.lister)
        self._passes.append(watch)
        self.explanations.clear()
        admitted = self.plugin.admit(value, reinvoke=reinvoke)
        self._explained_calls.append(tuple(self.explanations))
        return admitted

    def explained(self, number: int, refused: str) -> Explanation:
        """Explain all webhooks in the first pass, and repeated ones in the second."""
        policies = self._explained_calls[number - 1] if number <= len(self._explained_calls) else ()
        if number > 1:
            called = self._passes[number - 1].calls() if number <= len(self._passes) else ()
            return Explanation(tuple(each for each in policies if each.matches), called=called)
        watch = self._passes[0] if self._passes else WebhookWatch(self.plugin.admission, self.lister)
        return Explanation(policies, tuple(watch.explained(self.hooks, self.candidates, self._shown, refused)))


class ValidatingWebhookWatch:
    """Observes the validating webhooks of one set."""

    def __init__(self, admission: WebhookAdmission, index: int, manifests: ManifestSet, asking: Asking) -> None:
        """Keep the step. `index` is the index of the set among the plugin's sets. `manifests` may have more webhooks.

        The backends of `asking` are those of the set.
        """
        self._admission = admission
        self._index = index
        self._hooks = admission.hooks_of(manifests)
        side = asking.sides[index]
        self._attributes = side.attributes
        self._watch = WebhookWatch(admission, side.lister)
        self._explained_calls: list[PolicyExplanation] = []
        self._backends = with_explanations(asking.backends, self._explained_calls)
        self.denials: Sequence[Denial] = ()

    def __call__(self, objects: Sequence[Object], asking: Asking, live: Sequence[bool]) -> Sequence[Decision]:
        """Decide for the observed set."""
        decisions = [ADMITTED] * len(objects)
        side = asking.sides[self._index]
        self._attributes = side.attributes.with_object(objects[self._index])
        if live[self._index]:
            hooks = self._admission.candidates(side.attributes)[self._index]
            effects = validate(self._admission, hooks, (self._attributes, side.lister), self._backends, self._watch)
            decisions[self._index] = effects.decision()
            self.denials = effects.denials
        return decisions

    def explained(self, refused: str) -> Explanation:
        """Explain every webhook of the set, and why it is called or not."""
        hooks_asked = self._admission.hooks[self._index]
        webhooks = tuple(self._watch.explained(self._hooks, hooks_asked, self._attributes, refused))
        return Explanation(tuple(self._explained_calls), webhooks)
