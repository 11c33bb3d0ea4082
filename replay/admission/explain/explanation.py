"""One request and one set, looked at closely: which policies match and why not the others, and what each expression came to.

This decides nothing: the verdict is that of `Chain`. It repeats the same steps one by one, with every expression on the strict
engine, which tells the value of each of its parts and the exact cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from replay.admission.decision import Denial
from replay.admission.inputs import Evaluations, Inputs
from replay.admission.match_conditions import BUDGET as MATCH_CONDITIONS_BUDGET
from replay.admission.match_conditions import MatchConditionsResult, match_conditions
from replay.admission.mutating.mutator import Object
from replay.cel.strict.trace import Trace
from replay.cel.value.values import EvalError, Unknown, Value
from replay.cellib.activation import Activation
from replay.cellib.composition import CompiledExpression, ExpressionCompiler
from replay.cellib.environment import ExpressionKind
from replay.cellib.variables import Variable, VariableValues
from replay.json import JSON
from replay.kube.admissionregistration import FailurePolicy, MatchCondition

NO_TRACE = Trace(())


@dataclass(frozen=True, slots=True)
class ExpressionStep:
    """One expression and what it came to: `value` may be an `EvalError` or an `Unknown`; `label` says which it is.

    `cost` is that of the expression with the variables that it was the first to read. `effect` says what follows.
    """

    label: str
    compiled: CompiledExpression
    value: Value
    trace: Trace = NO_TRACE
    cost: int = 0
    effect: str = ""


@dataclass(frozen=True, slots=True)
class BindingExplanation:
    """A policy with one binding and one parameter: `outcome` in words, or `mismatch` where the binding does not match."""

    binding: str
    actions: tuple[str, ...] = ()
    mismatch: str = ""
    param: str = ""
    steps: tuple[ExpressionStep, ...] = ()
    outcome: str = ""
    patch: tuple[JSON, ...] = ()

    @property
    def cost(self) -> int:
        """The cost of all expressions; variables are part of those that read them."""
        return sum(step.cost for step in self.steps if not step.label.startswith("variable "))


@dataclass(frozen=True, slots=True)
class PolicyExplanation:
    """A policy: `mismatch` says why it does not match, `matched_as` as which resource it does, `error` why it cannot be used."""

    policy: str
    kind: str
    failure_policy: FailurePolicy
    mismatch: str = ""
    matched_as: str = ""
    error: str = ""
    bindings: tuple[BindingExplanation, ...] = ()

    @property
    def matches(self) -> bool:
        """Whether the policy and one of its bindings match."""
        return bool(self.error) or any(not each.mismatch for each in self.bindings)


@dataclass(frozen=True, slots=True)
class PassExplanation:
    """One pass of the mutating phase, counted from 1: the first one with all policies, the second with those that ran again.

    `webhooks` are those that are called again.
    """

    number: int
    policies: tuple[PolicyExplanation, ...] = ()
    webhooks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WebhookExplanation:
    """A webhook: `reason` says why it is not called, empty where it is; `steps` are the match conditions that are false."""

    webhook: str
    configuration: str
    phase: str
    reason: str = ""
    steps: tuple[ExpressionStep, ...] = ()


class Step(NamedTuple):
    """One pass of a mutating plugin explained: the object that it leaves, whether all run once more, why nothing comes after it.

    `policies` and `webhooks` are what it has; `called` are the webhooks that it calls again.
    """

    object: Object
    changed: bool
    refused: str
    policies: tuple[PolicyExplanation, ...] = ()
    webhooks: tuple[WebhookExplanation, ...] = ()
    called: tuple[str, ...] = ()


class Validated(NamedTuple):
    """A validating plugin explained."""

    policies: tuple[PolicyExplanation, ...] = ()
    webhooks: tuple[WebhookExplanation, ...] = ()


@dataclass(slots=True)
class TracedExpressions:
    """The expressions of one policy, binding and parameter, evaluated one by one with their parts."""

    compiler: ExpressionCompiler
    inputs: Inputs
    matching: bool = False
    _variables: dict[int, tuple[Activation, VariableValues]] = field(default_factory=dict)

    def step(self, label: str, compiled: CompiledExpression, effect: str = "") -> ExpressionStep:
        """Evaluate an expression."""
        if compiled.program is None:
            return ExpressionStep(label, compiled, EvalError(compiled.error), effect=effect)
        activation = self.inputs.activation(compiled.footprint, matching=self.matching)
        variables = self._values(activation)
        scope = activation.scope(self.compiler.views)
        scope.use_kind(compiled.kind)
        result, trace = compiled.program.trace(scope.with_variables(variables))
        cost = result.cost + variables.take_cost()
        return ExpressionStep(label, compiled, result.value, trace, cost, effect)

    def variables(self) -> Iterator[ExpressionStep]:
        """The variables that were read, each with its parts."""
        for activation, variables in self._variables.values():
            scope = activation.scope(self.compiler.views)
            for name in variables.computed:
                compiled = self.compiler.variables.get(name)
                if compiled is None or compiled.program is None:
                    continue
                result, trace = compiled.program.trace(scope.with_variables(variables))
                yield ExpressionStep(f"variable {name}", compiled, result.value, trace, result.cost)

    def _values(self, activation: Activation) -> VariableValues:
        if id(activation) not in self._variables:
            variables = {name: Variable(each.program, each.error) for name, each in self.compiler.variables.items()}
            scope = activation.scope(self.compiler.views)
            self._variables[id(activation)] = activation, VariableValues(variables, scope)
        return self._variables[id(activation)][1]


def explain_conditions(
    compiler: ExpressionCompiler, conditions: Sequence[MatchCondition], inputs: Inputs, failure_policy: FailurePolicy
) -> tuple[MatchConditionsResult, list[ExpressionStep]]:
    """The match conditions, and what they come to together; those that are false say so."""
    compiled = [compiler.compile(ExpressionKind.MATCH_CONDITION, each.expression) for each in conditions]
    evaluations = Evaluations(compiler, inputs, MATCH_CONDITIONS_BUDGET, matching=True)
    result = match_conditions(compiled, evaluations, failure_policy)
    traced = TracedExpressions(compiler, inputs, matching=True)
    steps = []
    for condition, each in zip(conditions, compiled, strict=True):
        step = traced.step(f"matchCondition {condition.name}", each)
        effect = "the policy is skipped" if step.value is False else ""
        steps.append(ExpressionStep(step.label, each, step.value, step.trace, step.cost, effect))
    return result, [*traced.variables(), *steps]


def skipped(result: MatchConditionsResult, steps: Sequence[ExpressionStep]) -> str:
    """Why match conditions end the policy, empty where they do not."""
    if result.error:
        return f"refused: {result.error}"
    if result.matches:
        return ""
    false = [step.label for step in steps if step.value is False]
    return (
        f"skipped: {false[0]} is false" if false else "skipped: a match condition failed, and failurePolicy is Ignore"
    )


def unknown_paths(value: Value) -> tuple[Any, ...]:
    """What an unknown value depends on."""
    return value.missing if isinstance(value, Unknown) else ()


def refusal_of(denials: Sequence[Denial]) -> str:
    """Why nothing comes after a denial, empty without one."""
    return f"`{denials[0].policy}` refuses the request" if denials else ""


def param_name(param: JSON) -> str:
    """`namespace/name` of a parameter, empty without one."""
    value = getattr(param, "value", param)
    metadata: Mapping[str, Any] = value.get("metadata") or {} if isinstance(value, dict) else {}
    return "/".join(filter(None, (str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))))
