"""Why the webhooks of one set and phase are called for a request or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replay.admission.decision import Denial
from replay.admission.explain.explanation import (
    ExpressionStep,
    Step,
    WebhookExplanation,
    explain_conditions,
    refusal_of,
    skipped,
)
from replay.admission.inputs import Inputs
from replay.admission.mutating.mutator import Object
from replay.admission.webhook.plugin import MutatingWebhookPlugin
from replay.admission.webhook.webhooks import WebhookAdmission, WebhookHook, WebhookInvocation, match_resources
from replay.cellib.composition import ExpressionCompiler
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Attributes, Missing
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.exclusion import is_excluded_from_api_webhooks, is_excluded_from_webhooks
from replay.matching.matcher import Match, Matcher
from replay.matching.reason import why_not

SAME = "matches; the same in both sets, and taken to answer as it did at the time"


@dataclass(frozen=True)
class WebhookExplainer:
    """The webhooks of a set, of which `asked` has, at `index`, those that the chain asks."""

    asked: WebhookAdmission
    index: int
    manifests: ManifestSet
    version: KubernetesVersion
    discovery: Discovery

    def explain(self, attributes: Attributes, lister: Lister, refused: str) -> tuple[WebhookExplanation, ...]:
        """All webhooks of the phase, in order; `refused` says why none of them is asked, empty if nothing ended before."""
        return tuple(self._explained(attributes, lister, refused))

    def _explained(self, attributes: Attributes, lister: Lister, refused: str) -> Iterator[WebhookExplanation]:
        admission = self.asked.of(self.manifests)
        kept = {(hook.configuration, hook.webhook.name) for hook in self.asked.hooks[self.index]}
        for hook in admission.hooks[0]:
            name = hook.webhook.name
            reason, steps = self._not_matched(admission, hook, attributes, lister)
            if not reason and (hook.configuration, name) not in kept:
                reason = SAME
            elif not reason and refused:
                reason = f"not asked: {refused}"
            elif not reason:
                answer = admission.should_call(hook, attributes, lister)
                if isinstance(answer, Denial):
                    reason, refused = f"the request is refused: {answer.message}", f"`{name}` refuses the request"
                elif isinstance(answer, Missing):
                    reason = f"not known: it depends on `{answer.path}`: {answer.reason}"
            yield WebhookExplanation(name, hook.configuration, self.asked.phase, reason, steps)

    def _not_matched(
        self, admission: WebhookAdmission, hook: WebhookHook, attributes: Attributes, lister: Lister
    ) -> tuple[str, tuple[ExpressionStep, ...]]:
        """Why a webhook does not match; empty where it does, or where that fails or is not known."""
        resource, webhook = attributes.resource, hook.webhook
        if is_excluded_from_webhooks(resource, self.version):
            return f"no hook is asked about {resource.resource}", ()
        if is_excluded_from_api_webhooks(attributes.kind) and not hook.static:
            return f"only static webhooks are asked about {resource.resource}", ()
        matcher = Matcher(EquivalentResourceMapper(self.discovery))
        match = matcher.request(attributes, lister).match(hook.criteria)
        if match is None:
            return why_not(match_resources(webhook), matcher, attributes, lister), ()
        if not isinstance(match, Match) or not webhook.match_conditions:
            return "", ()
        bindings = admission.bindings(attributes, match.kind, lister)
        compiler = ExpressionCompiler(self.version, has_params=False)
        inputs = Inputs(bindings, bindings["request"])
        result, steps = explain_conditions(compiler, webhook.match_conditions, inputs, webhook.failure_policy)
        if result.matches or result.error:
            return "", ()
        return skipped(result, steps), tuple(step for step in steps if step.value is False)


class WebhookWatch:
    """The mutating webhooks of one set on one request, watched."""

    def __init__(
        self, plugin: MutatingWebhookPlugin, explainer: WebhookExplainer, attributes: Attributes, lister: Lister
    ) -> None:
        """`attributes` are those before mutation."""
        self._plugin = plugin
        self._explainer = explainer
        self._attributes = attributes
        self._lister = lister

    def step(self, value: Object, refused: str, *, reinvoke: bool) -> Step:
        """One pass."""
        seen, changed = self._attributes.with_object(value), False
        if not refused:
            value, changed = self._plugin.admit(value, reinvoke=reinvoke)
        end = refused or refusal_of(self._plugin.effects.denials)
        if reinvoke:
            return Step(value, changed, end, called=self._called_again(seen))
        return Step(value, changed, end, webhooks=self._explainer.explain(seen, self._lister, refused))

    def _called_again(self, seen: Attributes) -> tuple[str, ...]:
        """The webhooks that are called in the second pass too."""
        asked = [hook for hook in self._plugin.hooks if self._plugin.is_asked_again(hook)]
        answers = [(hook, self._plugin.admission.should_call(hook, seen, self._lister)) for hook in asked]
        return tuple(hook.webhook.name for hook, answer in answers if isinstance(answer, WebhookInvocation))
