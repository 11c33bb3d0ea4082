"""Evaluation of expressions with their parts, for explanations: match conditions and variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from replay.admission.explain.explanation import ExpressionStep
from replay.admission.inputs import Inputs
from replay.admission.match_conditions import MatchConditionsResult
from replay.cel.value.values import EvalError
from replay.cellib.activation import Activation
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.variables import CompiledVariable, VariableValues
from replay.identity import IdentityMap
from replay.kube.admissionregistration import MatchCondition


class TracedExpressions(Struct):
    """Evaluates the expressions of one policy, binding and parameter one by one, with their parts."""

    compiler: ExpressionCompiler
    inputs: Inputs
    matching: bool = False
    _variables: IdentityMap[Activation, VariableValues] = field(default_factory=IdentityMap)

    def step(self, label: str, compiled: CompiledExpression, effect: str = "") -> ExpressionStep:
        """Return an evaluated expression."""
        if compiled.program is None:
            return ExpressionStep(label, compiled, EvalError(compiled.error or ""), effect=effect)
        activation = self.inputs.activation(compiled.footprint, matching=self.matching)
        variables = self._values(activation)
        scope = activation.scope(self.compiler.views)
        scope.use_kind(compiled.kind)
        result, trace = compiled.program.trace(scope.with_variables(variables))
        cost = result.cost + variables.take_cost()
        return ExpressionStep(label, compiled, result.value, trace, cost, effect)

    def variables(self) -> Iterator[ExpressionStep]:
        """Yield the variables that were read, each with its parts."""
        for activation, variables in self._variables.items():
            scope = activation.scope(self.compiler.views)
            for name in variables.computed:
                compiled = self.compiler.variables.get(name)
                if compiled is None or compiled.program is None:
                    continue
                result, trace = compiled.program.trace(scope.with_variables(variables))
                yield ExpressionStep(f"variable {name}", compiled, result.value, trace, result.cost)

    def _values(self, activation: Activation) -> VariableValues:
        if activation not in self._variables:
            variables = {
                name: CompiledVariable(each.program, each.error) for name, each in self.compiler.variables.items()
            }
            scope = activation.scope(self.compiler.views)
            self._variables[activation] = VariableValues(variables, scope)
        return self._variables[activation]


def explain_conditions(
    conditions: Sequence[MatchCondition],
    compiler: ExpressionCompiler,
    compiled: Sequence[CompiledExpression],
    inputs: Inputs,
) -> list[ExpressionStep]:
    """Explain match conditions and the variables that they read."""
    traced = TracedExpressions(compiler, inputs, matching=True)
    steps = []
    for condition, each in zip(conditions, compiled, strict=True):
        step = traced.step(f"matchCondition {condition.name}", each)
        effect = "the policy is skipped" if step.value is False else ""
        steps.append(ExpressionStep(step.label, each, step.value, step.trace, step.cost, effect))
    return [*traced.variables(), *steps]


def skipped(result: MatchConditionsResult, steps: Sequence[ExpressionStep]) -> str:
    """Return why match conditions end the policy, empty if they do not."""
    if result.error:
        return f"refused: {result.error}"
    if result.matches:
        return ""
    false = [step.label for step in steps if step.value is False]
    return (
        f"skipped: {false[0]} is false" if false else "skipped: a match condition failed, and failurePolicy is Ignore"
    )
