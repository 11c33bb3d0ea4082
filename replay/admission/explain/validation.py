"""The validating policies of one set and request explained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from replay.admission.explain.explanation import (
    BindingExplanation,
    ExpressionStep,
    PolicyExplanation,
    TracedExpressions,
    explain_conditions,
    skipped,
    unknown_paths,
)
from replay.admission.explain.hook import Hook, HookExplainer, not_asked
from replay.admission.hooks import BoundBinding, policy_hooks
from replay.admission.inputs import Inputs
from replay.admission.validating.plugin import ValidatingAdmission
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


def explain_policies(
    admission: ValidatingAdmission,
    manifests: ManifestSet,
    where: tuple[Attributes, Lister],
    context: tuple[KubernetesVersion, Discovery],
    refused: str,
) -> tuple[PolicyExplanation, ...]:
    """The validating policies of a set, in order; `refused` says why none of them is asked, empty if they are."""
    (attributes, lister), (version, discovery) = where, context
    matcher = Matcher(EquivalentResourceMapper(discovery))
    policies = manifests.validating_policies
    hooks = policy_hooks(policies, manifests.validating_bindings, policies, matcher)
    if refused:
        return tuple(not_asked(hook, _KIND, f"not asked: {refused}") for hook in hooks)

    def evaluate(
        hook: Hook, bound: BoundBinding[Any], match: Match, param: JSON | PartialObject | None
    ) -> BindingExplanation:
        explained = _validation(hook.policy, version, admission.inputs(match, attributes, lister, param))
        actions = tuple(bound.binding.validation_actions)
        outcome = explained.outcome
        if outcome == DENIES and "Deny" not in actions:
            outcome = f"would deny, but the binding has {' and '.join(actions)} alone"
        return replace(explained, binding=bound.binding.name, actions=actions, outcome=outcome)

    matching = HookExplainer(discovery, matcher, attributes, lister, _KIND, evaluate)
    return tuple(matching.of(hook) for hook in hooks)


def _validation(policy: ValidatingAdmissionPolicy, version: KubernetesVersion, inputs: Inputs) -> BindingExplanation:
    compiler = ExpressionCompiler(version, has_params=policy.param_kind is not None)
    for variable in policy.variables:
        compiler.declare_variable(variable.name, variable.expression)
    matched, conditions = explain_conditions(compiler, policy.match_conditions, inputs, policy.failure_policy)
    end = skipped(matched, conditions)
    if end:
        return BindingExplanation("", steps=tuple(conditions), outcome=end)
    steps = list(_validations(policy, compiler, inputs))
    return BindingExplanation("", steps=(*conditions, *steps), outcome=_outcome(steps))


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
