"""Both policy plugins explained (`explanation`), with the inputs and the order of `ValidatingAdmission` and `MutatingAdmission`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from replay.admission.chain import Chain
from replay.admission.change import changes
from replay.admission.explanation import (
    BindingExplanation,
    ExpressionStep,
    PolicyExplanation,
    TracedExpressions,
    explain_conditions,
    param_name,
    skipped,
    unknown_paths,
)
from replay.admission.hooks import BoundBinding, PolicyHook, policy_hooks
from replay.admission.inputs import Inputs
from replay.admission.mutating import Invocation, MutatingRequest
from replay.admission.mutator import MutateResult, Mutator, Object
from replay.admission.params import ConfigurationError, collect_params, param_kind
from replay.cel.values import EvalError
from replay.cellib.composition import ExpressionCompiler
from replay.cellib.environment import ExpressionKind
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import (
    FailurePolicy,
    ManifestSet,
    MatchResources,
    MutatingAdmissionPolicy,
    ValidatingAdmissionPolicy,
)
from replay.kube.attributes import JSON, Attributes, Missing, Operation, PartialObject
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.exclusion import is_excluded_from_all_hooks, is_excluded_from_api_policies
from replay.matching.matcher import Match, Matcher, MatchError
from replay.matching.reason import why_not

Hook = PolicyHook[Any, Any, Any]
Evaluate = Callable[[Hook, BoundBinding[Any], Match, JSON | PartialObject | None], BindingExplanation]
DENIES = "denies"
_KINDS = {
    "ApplyConfiguration": ExpressionKind.APPLY_CONFIGURATION,
    "JSONPatch": ExpressionKind.JSON_PATCH,
}


@dataclass(frozen=True)
class Explainer:
    """Explains requests to one chain; `discovery` is that of the chain."""

    chain: Chain
    version: KubernetesVersion
    discovery: Discovery

    def validating(self, manifests: ManifestSet, attributes: Attributes, lister: Lister) -> list[PolicyExplanation]:
        """The validating policies of a set, in order."""
        matcher = Matcher(EquivalentResourceMapper(self.discovery))
        policies = manifests.validating_policies
        hooks = policy_hooks(policies, manifests.validating_bindings, policies, matcher)

        def evaluate(hook: Hook, bound: BoundBinding[Any], match: Match, param: JSON) -> BindingExplanation:
            inputs = self.chain.validating.inputs(match, attributes, lister, param)
            explained = self._validation(hook.policy, inputs)
            actions = tuple(bound.binding.validation_actions)
            outcome = explained.outcome
            if outcome == DENIES and "Deny" not in actions:
                outcome = f"would deny, but the binding has {' and '.join(actions)} alone"
            return replace(explained, binding=bound.binding.name, actions=actions, outcome=outcome)

        return [
            _Matching(self, matcher, attributes, lister, "ValidatingAdmissionPolicy", evaluate).of(h) for h in hooks
        ]

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

    def mutating(
        self, manifests: ManifestSet, attributes: Attributes, lister: Lister
    ) -> tuple[list[PolicyExplanation], Object]:
        """The first pass of the mutating policies of a set, and the object after it; `attributes` are those before it."""
        matcher = Matcher(EquivalentResourceMapper(self.discovery))
        policies = manifests.mutating_policies
        mutators = [Mutator(policy, self.version) for policy in policies]
        hooks = policy_hooks(policies, manifests.mutating_bindings, mutators, matcher)
        if attributes.operation is Operation.DELETE:
            return [_not_asked(hook, "the plugin does not see DELETE") for hook in hooks], attributes.object
        mutation = _Mutation(self, attributes, self.chain.mutating.request(attributes, lister))
        matching = _Matching(self, matcher, attributes, lister, "MutatingAdmissionPolicy", mutation.evaluate)
        return [matching.of(hook) for hook in hooks], mutation.value


def _not_asked(hook: Hook, reason: str) -> PolicyExplanation:
    return PolicyExplanation(hook.policy.name, "MutatingAdmissionPolicy", hook.policy.failure_policy, mismatch=reason)


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


@dataclass(frozen=True)
class _Matching:
    """The way from a hook to its bindings and parameters, which is the same for both plugins."""

    explainer: Explainer
    matcher: Matcher
    attributes: Attributes
    lister: Lister
    kind: str
    evaluate: Evaluate

    def of(self, hook: Hook) -> PolicyExplanation:
        """Explain one policy."""
        policy = hook.policy
        explained = PolicyExplanation(policy.name, self.kind, policy.failure_policy)
        excluded = self._excluded(hook)
        if excluded:
            return replace(explained, mismatch=excluded)
        if hook.criteria is None:
            return replace(explained, error="policy contained no match constraints, a required field")
        match = self.matcher.request(self.attributes, self.lister).match(hook.criteria)
        if match is None:
            return replace(explained, mismatch=self._why_not(policy.match_constraints))
        if isinstance(match, MatchError):
            return replace(explained, error=match.message)
        params = param_kind(policy.param_kind, self.explainer.discovery, self.lister) if policy.param_kind else None
        if isinstance(params, ConfigurationError | Missing):
            return replace(explained, error=getattr(params, "message", "") or getattr(params, "reason", ""))
        bindings = tuple(each for bound in hook.bindings for each in self._bound(hook, bound, match, params))
        return replace(explained, matched_as=self._matched_as(match), bindings=bindings)

    def _excluded(self, hook: Hook) -> str:
        resource = self.attributes.resource
        if is_excluded_from_all_hooks(resource):
            return f"no hook is asked about {resource.resource}"
        if is_excluded_from_api_policies(resource) and not hook.policy.static:
            return f"only static policies are asked about {resource.resource}"
        return ""

    def _why_not(self, match_resources: MatchResources) -> str:
        return why_not(match_resources, self.matcher, self.attributes, self.lister)

    def _matched_as(self, match: Match) -> str:
        unknown = f", if `{match.unknown.path}` were known ({match.unknown.reason})" if match.unknown else ""
        if match.resource == self.attributes.resource:
            return unknown.removeprefix(", ")
        return f"as {'/'.join(filter(None, match.resource))}{unknown}"

    def _bound(self, hook: Hook, bound: BoundBinding[Any], match: Match, params: Any) -> Iterator[BindingExplanation]:
        binding = bound.binding
        empty = BindingExplanation(binding.name, tuple(getattr(binding, "validation_actions", ())))
        if bound.criteria is not None:
            by_binding = self.matcher.request(self.attributes, self.lister).match(bound.criteria)
            if by_binding is None:
                yield replace(empty, mismatch=self._why_not(binding.match_resources))
                return
            if isinstance(by_binding, MatchError):
                yield replace(empty, outcome=f"failed to configure binding: {by_binding.message}")
                return
        found = collect_params(params, binding.param_ref, self.attributes.namespace, self.lister)
        if isinstance(found, ConfigurationError | Missing):
            reason = getattr(found, "message", "") or getattr(found, "reason", "")
            yield replace(empty, outcome=f"no parameters: {reason}")
            return
        for param in found:
            yield replace(self.evaluate(hook, bound, match, param), param=param_name(param))
        if not found:
            yield replace(empty, outcome="no parameter object is found, and parameterNotFoundAction is Allow")


class _Mutation:
    """The object on its way through the mutating policies."""

    def __init__(self, explainer: Explainer, attributes: Attributes, request: MutatingRequest) -> None:
        self._explainer = explainer
        self._attributes = attributes
        self._request = request
        self.value: Object = attributes.object

    def evaluate(self, hook: Hook, bound: BoundBinding[Any], match: Match, param: JSON) -> BindingExplanation:
        """One policy and binding on the object as it is now."""
        policy: MutatingAdmissionPolicy = hook.policy
        compiler = ExpressionCompiler(self._explainer.version, has_params=policy.param_kind is not None, mutation=True)
        for variable in policy.variables:
            compiler.declare_variable(variable.name, variable.expression)
        before, invocation = self.value, Invocation(hook, bound.binding, match, param, match.unknown)
        inputs = self._inputs(invocation, before)
        matched, steps = explain_conditions(compiler, policy.match_conditions, inputs, policy.failure_policy)
        end = skipped(matched, steps)
        if end:
            return BindingExplanation(bound.binding.name, steps=tuple(steps), outcome=end)
        for index in range(len(policy.mutations)):
            steps += self._mutation(compiler, invocation, index, before)
        result = self._request.mutate(invocation, before)
        self.value = result.object
        patch = changes(before, result.object)
        return BindingExplanation(
            bound.binding.name, steps=tuple(steps), outcome=_mutation_outcome(result, patch), patch=patch
        )

    def _inputs(self, invocation: Invocation, value: Object) -> Inputs:
        """What the expressions read, with the object in the version that was matched."""
        admission, lister, kind = self._request.admission, self._request.lister, invocation.match.kind
        versioned = admission.converter.versioned(replace(self._attributes, object=value), kind, lister).object
        inputs = admission.inputs(invocation.match, self._attributes, lister, invocation.param)
        return inputs.with_object(versioned)

    def _mutation(
        self, compiler: ExpressionCompiler, invocation: Invocation, index: int, before: Object
    ) -> list[ExpressionStep]:
        """One mutation, on what those before it left."""
        policy = invocation.hook.policy
        mutation = policy.mutations[index]
        earlier = Mutator(replace(policy, mutations=policy.mutations[:index]), self._explainer.version)
        alone = invocation._replace(hook=replace(invocation.hook, evaluator=earlier))
        value = self._request.mutate(alone, before).object if index else before
        traced = TracedExpressions(compiler, self._inputs(invocation, value))
        compiled = compiler.compile(_KINDS[mutation.patch_type], mutation.expression)
        step = traced.step(f"mutation {index} ({mutation.patch_type})", compiled)
        return [step, *traced.variables()]


def _mutation_outcome(result: MutateResult, patch: tuple[JSON, ...]) -> str:
    if result.status is not None:
        return f"refused: {result.status.message}"
    if result.unknown:
        return "undetermined"
    if result.errors:
        return f"failed: {result.errors[0]}"
    return "changes the object" if patch else "changes nothing"
