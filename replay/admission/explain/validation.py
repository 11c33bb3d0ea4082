"""Explains the validating policies of one set for one request."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from replay.admission.conversion import Object
from replay.admission.decision import Decision, Denial
from replay.admission.effects import ADMITTED
from replay.admission.explain.explanation import BindingExplanation, Explanation, ExpressionStep
from replay.admission.explain.expression import TracedExpressions, explain_conditions, skipped
from replay.admission.explain.hook import PolicyWatch, not_evaluated
from replay.admission.inputs import Inputs
from replay.admission.match_conditions import MatchConditionsResult
from replay.admission.ordered.plugin import Asking
from replay.admission.validating.plugin import ValidatingAdmission
from replay.admission.validating.policy_decision import Action, ValidateResult
from replay.cel.value.values import EvalError, Unknown
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.kube.admissionregistration import (
    VALIDATING_POLICY,
    FailurePolicy,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)

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
