"""Explains the mutating policies of one set for one request: which of them ran on which object, pass by pass."""

from __future__ import annotations

from collections.abc import Sequence

from replay.admission.conversion import Object
from replay.admission.effects import Changes, Effects, changes
from replay.admission.explain.explanation import BindingExplanation, Explanation, ExpressionStep, refusal_of
from replay.admission.explain.expression import TracedExpressions, explain_conditions, skipped
from replay.admission.explain.hook import PolicyWatch, not_evaluated
from replay.admission.inputs import Inputs
from replay.admission.match_conditions import MatchConditionsResult
from replay.admission.mutating.plugin import MutatingAdmission, MutatingRequest, MutationOutcome, PolicyPlugin
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.json import JSON
from replay.kube.admissionregistration import MUTATING_POLICY, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding
from replay.kube.attributes import Attributes, Operation
from replay.kube.lister import Lister


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
        return BindingExplanation(name, steps=steps, outcome=_outcome(result, patch), patch=patch)


def _outcome(outcome: MutationOutcome, patch: tuple[JSON, ...]) -> str:
    """Return a policy's effect in words."""
    object_before, result, unknown = outcome
    if result.unknown or (unknown and (result.errors or result.object is not object_before)):
        return "undetermined"
    if result.status is not None:
        return f"refused: {result.status.message}"
    if result.errors:
        return f"failed: {result.errors[0]}"
    return "changes the object" if patch else "changes nothing"
