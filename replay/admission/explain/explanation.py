"""Explanation of one request in one set: matching policies, reasons of the others, and values of expressions.

It decides nothing. It shows the steps that the chain reported. Only expressions run again, on the strict engine, for
the value of each part and the exact cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from replay.admission.decision import Denial
from replay.admission.inputs import Inputs, MatchConditionsResult
from replay.cel.strict.trace import Trace
from replay.cel.value.values import EvalError, Value
from replay.cellib.activation import Activation
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.variables import CompiledVariable, VariableValues
from replay.identity import IdentityMap
from replay.json import JSON
from replay.kube.admissionregistration import FailurePolicy, MatchCondition

NO_TRACE = Trace(())


class ExpressionStep(Struct, frozen=True):
    """One expression and its result: `value` may be an `EvalError` or an `Unknown`. `label` names the expression.

    `cost` includes the variables that it read first. `effect` names the effect on the request.
    """

    label: str
    compiled: CompiledExpression
    value: Value
    trace: Trace = NO_TRACE
    cost: int = 0
    effect: str = ""


class BindingExplanation(Struct, frozen=True):
    """A policy with one binding and one parameter.

    `mismatch` says why the binding does not match, otherwise `outcome` describes the result. `place` is the place in an
    engine's policy that gives the outcome, outermost part first.
    """

    binding: str
    actions: tuple[str, ...] = ()
    mismatch: str = ""
    param: str = ""
    steps: tuple[ExpressionStep, ...] = ()
    outcome: str = ""
    patch: tuple[JSON, ...] = ()
    place: tuple[str, ...] = ()

    @property
    def cost(self) -> int:
        """The cost of all expressions. Variables are part of the expressions that read them."""
        return sum(step.cost for step in self.steps if not step.label.startswith("variable "))


class PolicyExplanation(Struct, frozen=True):
    """A policy.

    `mismatch` says why it does not match, `matched_as` as which resource it does, `error` why it is unusable.
    """

    policy: str
    kind: str
    failure_policy: FailurePolicy
    mismatch: str = ""
    matched_as: str = ""
    error: str | None = None
    bindings: tuple[BindingExplanation, ...] = ()

    @property
    def matches(self) -> bool:
        """Return whether the policy and one of its bindings match, or the policy is unusable."""
        return bool(self.error) or any(not each.mismatch for each in self.bindings)


class PassExplanation(Struct, frozen=True):
    """One mutating pass, counted from 1: the first with all policies, the second with repeated ones.

    `webhooks` are called again.
    """

    number: int
    policies: tuple[PolicyExplanation, ...] = ()
    webhooks: tuple[str, ...] = ()


class WebhookExplanation(Struct, frozen=True):
    """A webhook. `reason` says why it is not called, empty if it is. `steps` are the false match conditions."""

    webhook: str
    configuration: str
    phase: str
    reason: str = ""
    steps: tuple[ExpressionStep, ...] = ()


class Explanation(NamedTuple):
    """Explanation of one plugin or one pass. `called` are webhooks that are called again."""

    policies: tuple[PolicyExplanation, ...] = ()
    webhooks: tuple[WebhookExplanation, ...] = ()
    called: tuple[str, ...] = ()


def refusal_of(denials: Sequence[Denial]) -> str:
    """Return why evaluation ends after a denial, empty if there is none."""
    return f"`{denials[0].policy}` refuses the request" if denials else ""


def param_name(param: JSON) -> str:
    """Return `namespace/name` of a parameter, empty if there is none."""
    value = getattr(param, "value", param)
    metadata: Mapping[str, Any] = value.get("metadata") or {} if isinstance(value, dict) else {}
    return "/".join(filter(None, (str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))))


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
