"""Explains the policies of one set for one request: the validating ones, and the mutating ones pass by pass."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from replay.admission.conversion import Object
from replay.admission.decision import Decision, Denial
from replay.admission.effects import ADMITTED, Changes, Effects, changes
from replay.admission.explain.explanation import (
    BindingExplanation,
    Explanation,
    ExpressionStep,
    TracedExpressions,
    explain_conditions,
    refusal_of,
    skipped,
)
from replay.admission.explain.hook import PolicyWatch, not_evaluated
from replay.admission.inputs import Inputs, MatchConditionsResult
from replay.admission.mutating.plugin import MutatingAdmission, MutatingRequest, MutationOutcome, PolicyPlugin
from replay.admission.ordered.plugin import Asking
from replay.admission.validating.outcome import Action, ValidateResult
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cel.value.values import EvalError, Unknown
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.json import JSON
from replay.kube.admissionregistration import (
    MUTATING_POLICY,
    VALIDATING_POLICY,
    FailurePolicy,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from replay.kube.attributes import Attributes, Operation
from replay.kube.lister import Lister

DENIES = "denies"


class ValidatingPolicyWatch:
    """Observes the validating policies of one set."""

    def __init__(self, admission: ValidatingAdmission, index: int) -> None:
        """`index` is the index of the set among the plugin's sets."""
        self._admission = admission
        self._index = index
        self._watch: PolicyWatch | None = None
        self.denials: Sequence[Denial] = ()

    def __call__(self, objects: Sequence[Object], asking: Asking, live: Sequence[bool]) -> Sequence[Decision]:
        """Decide for the observed set."""
        decisions = [ADMITTED] * len(objects)
        if live[self._index]:
            side = asking.sides[self._index]
            attributes = side.attributes.with_object(objects[self._index])
            self._watch = PolicyWatch(VALIDATING_POLICY, self._admission.walker.matcher, side.lister, ValidationWatch)
            decision = self._admission.observe(self._index, attributes, side.lister, self._watch)
            decisions[self._index] = decision
            self.denials = decision.denials
        return decisions

    def explained(self, refused: str) -> Explanation:
        """Explain every policy of the set with its inputs."""
        hooks = self._admission.hooks[self._index]
        if self._watch is None:
            return Explanation(not_evaluated(hooks, VALIDATING_POLICY, f"not asked: {refused}"))
        return Explanation(self._watch.explained(hooks, ""))


class ValidationWatch:
    """Observer of one policy's evaluation."""

    def __init__(self, policy: ValidatingAdmissionPolicy, binding: ValidatingAdmissionPolicyBinding) -> None:
        """Start empty."""
        self._policy = policy
        self._binding = binding
        self._steps: list[ExpressionStep] = []
        self._end = ""
        self._inputs: Inputs | None = None

    def conditions(
        self,
        compiler: ExpressionCompiler,
        compiled: Sequence[CompiledExpression],
        inputs: Inputs,
        result: MatchConditionsResult,
    ) -> None:
        """See `ConditionsObserver.conditions`."""
        self._inputs = inputs.unread()
        self._steps = explain_conditions(self._policy.match_conditions, compiler, compiled, self._inputs)
        self._end = skipped(result, self._steps)

    def validations(
        self,
        compiler: ExpressionCompiler,
        compiled: Sequence[tuple[CompiledExpression, CompiledExpression | None]],
        annotations: Sequence[tuple[str, CompiledExpression]],
        inputs: Inputs,
    ) -> None:
        """See `ValidationObserver.validations`."""
        del inputs
        assert self._inputs is not None
        traced = TracedExpressions(compiler, self._inputs)
        for index, (validation, message) in enumerate(compiled):
            step = traced.step(f"validation {index}", validation)
            self._steps.append(replace(step, effect=_effect(step, self._policy.failure_policy)))
            if step.value is False and message is not None:
                self._steps.append(traced.step(f"messageExpression {index}", message))
        self._steps += [traced.step(f"auditAnnotation {key}", each) for key, each in annotations]
        self._steps += traced.variables()

    def explained(self, result: ValidateResult) -> BindingExplanation:
        """Return the explanation of the evaluation with this result."""
        actions = tuple(self._binding.validation_actions)
        outcome = self._end or _outcome(result)
        if outcome == DENIES and "Deny" not in actions:
            outcome = f"would deny, but the binding has {' and '.join(actions)} alone"
        return BindingExplanation(self._binding.name, actions, steps=tuple(self._steps), outcome=outcome)


def _effect(step: ExpressionStep, failure_policy: FailurePolicy) -> str:
    """Return the effect of a validation's value."""
    if step.value is False:
        return DENIES
    if isinstance(step.value, EvalError):
        return f"failurePolicy {failure_policy.value} {DENIES if failure_policy is FailurePolicy.FAIL else 'admits'}"
    return "undetermined" if isinstance(step.value, Unknown) and step.value.missing else ""


def _outcome(result: ValidateResult) -> str:
    actions = {decision.action for decision in result.decisions}
    if result.unknown or Action.UNKNOWN in actions:
        return "undetermined"
    return DENIES if Action.DENY in actions else "admits"


class MutatingPolicyWatch:
    """Observes the mutating policies of one set on one request."""

    def __init__(self, admission: MutatingAdmission, index: int, attributes: Attributes, lister: Lister) -> None:
        """Keep the step. `index` is the index of the set among the plugin's sets.

        `attributes` are those before mutation.
        """
        self._hooks = admission.hooks[index]
        self._matcher = admission.walker.matcher
        self._lister = lister
        self._sees = attributes.operation is not Operation.DELETE
        self._plugin = PolicyPlugin((), MutatingRequest(admission, attributes, lister, Changes()))
        self._passes: list[PolicyWatch] = []
        self.effects = Effects()

    def admit(self, value: Object, *, reinvoke: bool) -> tuple[Object, bool]:
        """Run one pass over the policies."""
        if not self._sees:
            return value, False
        watch = PolicyWatch(MUTATING_POLICY, self._matcher, self._lister, MutationWatch)
        self._passes.append(watch)
        result = self._plugin.observe(self._hooks, value, watch, reinvoke=reinvoke)
        self.effects.denials += result.denials
        return result.object, result.should_reinvoke

    def explained(self, number: int, refused: str) -> Explanation:
        """Explain all policies in the first pass, and repeated ones in the second."""
        if not self._sees:
            reason = "the plugin does not see DELETE"
            return Explanation(not_evaluated(self._hooks, MUTATING_POLICY, reason) if number == 1 else ())
        if number > 1:
            return Explanation(self._passes[number - 1].ran() if number <= len(self._passes) else ())
        if not self._passes:
            return Explanation(not_evaluated(self._hooks, MUTATING_POLICY, f"not asked: {refused}"))
        return Explanation(self._passes[0].explained(self._hooks, refusal_of(self.effects.denials)))


class MutationWatch:
    """Observer of one policy's evaluation on its input object."""

    def __init__(self, policy: MutatingAdmissionPolicy, binding: MutatingAdmissionPolicyBinding) -> None:
        """Start empty."""
        self._policy = policy
        self._binding = binding
        self._steps: list[ExpressionStep] = []
        self._end = ""
        self._number = 0

    def conditions(
        self,
        compiler: ExpressionCompiler,
        compiled: Sequence[CompiledExpression],
        inputs: Inputs,
        result: MatchConditionsResult,
    ) -> None:
        """See `ConditionsObserver.conditions`."""
        self._steps = explain_conditions(self._policy.match_conditions, compiler, compiled, inputs.unread())
        self._end = skipped(result, self._steps)

    def mutation(self, compiler: ExpressionCompiler, compiled: CompiledExpression, inputs: Inputs) -> None:
        """See `MutationObserver.mutation`."""
        traced = TracedExpressions(compiler, inputs.unread())
        mutation = self._policy.mutations[self._number]
        self._steps.append(traced.step(f"mutation {self._number} ({mutation.patch_type})", compiled))
        self._steps += traced.variables()
        self._number += 1

    def explained(self, result: MutationOutcome) -> BindingExplanation:
        """Return the explanation of the evaluation with this result."""
        object_before, after, unknown = result
        steps, name = tuple(self._steps), self._binding.name
        if self._end:
            return BindingExplanation(name, steps=steps, outcome=self._end)
        patch = () if unknown else changes(object_before, after.object)
        return BindingExplanation(name, steps=steps, outcome=_mutation_outcome(result, patch), patch=patch)


def _mutation_outcome(outcome: MutationOutcome, patch: tuple[JSON, ...]) -> str:
    """Return a policy's effect in words."""
    object_before, result, unknown = outcome
    if result.unknown or (unknown and (result.errors or result.object is not object_before)):
        return "undetermined"
    if result.status is not None:
        return f"refused: {result.status.message}"
    if result.errors:
        return f"failed: {result.errors[0]}"
    return "changes the object" if patch else "changes nothing"
