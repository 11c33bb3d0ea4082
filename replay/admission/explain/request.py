"""A request explained in the order of the chain: the mutating phase, the validating policies, the validating webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from replay.admission.chain import Chain
from replay.admission.explain.explanation import (
    BindingExplanation,
    ExpressionStep,
    PolicyExplanation,
    TracedExpressions,
    WebhookExplanation,
    explain_conditions,
    skipped,
    unknown_paths,
)
from replay.admission.explain.hook import Hook, HookExplainer, not_asked
from replay.admission.explain.mutation import MutatingPhase, MutationExplainer
from replay.admission.explain.webhook import WebhookExplainer
from replay.admission.hooks import BoundBinding, policy_hooks
from replay.admission.inputs import Inputs
from replay.admission.webhook.plugin import Backends
from replay.cel.value.values import EvalError
from replay.cellib.composition import ExpressionCompiler
from replay.cellib.environment import ExpressionKind
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import FailurePolicy, ManifestSet, ValidatingAdmissionPolicy
from replay.kube.attributes import Attributes, PartialObject
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.matcher import Match, Matcher

DENIES = "denies"
_KIND = "ValidatingAdmissionPolicy"


@dataclass(frozen=True)
class Explainer:
    """Explains a request to one chain; `discovery` is that of the chain, `backends` answer for webhooks about the request."""

    chain: Chain
    version: KubernetesVersion
    discovery: Discovery
    backends: Backends

    def validating(
        self, manifests: ManifestSet, attributes: Attributes, lister: Lister, refused: str
    ) -> tuple[PolicyExplanation, ...]:
        """The validating policies of a set, in order; `refused` says why none of them is asked, empty if they are."""
        matcher = Matcher(EquivalentResourceMapper(self.discovery))
        policies = manifests.validating_policies
        hooks = policy_hooks(policies, manifests.validating_bindings, policies, matcher)

        if refused:
            return tuple(not_asked(hook, _KIND, f"not asked: {refused}") for hook in hooks)

        def evaluate(
            hook: Hook, bound: BoundBinding[Any], match: Match, param: JSON | PartialObject | None
        ) -> BindingExplanation:
            inputs = self.chain.validating.inputs(match, attributes, lister, param)
            explained = self._validation(hook.policy, inputs)
            actions = tuple(bound.binding.validation_actions)
            outcome = explained.outcome
            if outcome == DENIES and "Deny" not in actions:
                outcome = f"would deny, but the binding has {' and '.join(actions)} alone"
            return replace(explained, binding=bound.binding.name, actions=actions, outcome=outcome)

        matching = HookExplainer(self.discovery, matcher, attributes, lister, _KIND, evaluate)
        return tuple(matching.of(hook) for hook in hooks)

    def _validation(self, policy: ValidatingAdmissionPolicy, inputs: Inputs) -> BindingExplanation:
        compiler = ExpressionCompiler(self.version, has_params=policy.param_kind is not None)
        for variable in policy.variables:
            compiler.declare_variable(variable.name, variable.expression)
        matched, conditions = explain_conditions(compiler, policy.match_conditions, inputs, policy.failure_policy)
        end = skipped(matched, conditions)
        if end:
            return BindingExplanation("", steps=tuple(conditions), outcome=end)
        steps = list(_validations(policy, compiler, inputs))
        return BindingExplanation("", steps=(*conditions, *steps), outcome=_outcome(steps))

    def mutating(self, index: int, manifests: ManifestSet, attributes: Attributes, lister: Lister) -> MutatingPhase:
        """The mutating phase of a set, which stands at `index` in the chain; `attributes` are those before mutation."""
        explainer = MutationExplainer(self.chain, self.version, self.discovery, attributes, lister)
        return explainer.explain(index, manifests, self.backends)

    def validating_webhooks(
        self, index: int, manifests: ManifestSet, attributes: Attributes, lister: Lister, refused: str
    ) -> tuple[WebhookExplanation, ...]:
        """The validating webhooks of a set; `refused` says why the request does not come to them, empty if it does."""
        admission = self.chain.validating_webhooks
        explainer = WebhookExplainer(admission, index, manifests, self.version, self.discovery)
        return explainer.explain(attributes, lister, refused)


def _validations(
    policy: ValidatingAdmissionPolicy, compiler: ExpressionCompiler, inputs: Inputs
) -> Iterator[ExpressionStep]:
    """The validations, with the message expression of each that is false, then annotations and the variables read."""
    traced = TracedExpressions(compiler, inputs)
    for index, validation in enumerate(policy.validations):
        compiled = compiler.compile(ExpressionKind.VALIDATION, validation.expression)
        step = traced.step(f"validation {index}", compiled)
        yield replace(step, effect=_effect(step, policy.failure_policy))
        if step.value is False and validation.message_expression:
            message = compiler.compile(ExpressionKind.MESSAGE_EXPRESSION, validation.message_expression)
            yield traced.step(f"messageExpression {index}", message)
    for annotation in policy.audit_annotations:
        compiled = compiler.compile(ExpressionKind.AUDIT_ANNOTATION, annotation.value_expression)
        yield traced.step(f"auditAnnotation {annotation.key}", compiled)
    yield from traced.variables()


def _effect(step: ExpressionStep, failure_policy: FailurePolicy) -> str:
    """What follows from the value of a validation."""
    if step.value is False:
        return DENIES
    if isinstance(step.value, EvalError):
        return f"failurePolicy {failure_policy.value} {DENIES if failure_policy is FailurePolicy.FAIL else 'admits'}"
    return "cannot be told" if unknown_paths(step.value) else ""


def _outcome(steps: list[ExpressionStep]) -> str:
    effects = [step.effect for step in steps if step.effect]
    if "cannot be told" in effects:
        return "undetermined"
    return DENIES if any(each.endswith(DENIES) for each in effects) else "admits"
