"""How the expressions of a validating policy are evaluated: on the budgets of the policy, or together with those of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from replay.admission.inputs import Evaluations, Inputs, KindEvaluation, evaluations
from replay.admission.match_conditions import BUDGET as MATCH_CONDITIONS_BUDGET
from replay.cellib.activation import Activation
from replay.cellib.composition import FALSE, TRUE, Evaluated, Evaluation
from replay.cellib.environment import PER_CALL_LIMIT, ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler

RUNTIME_BUDGET = 10_000_000
"""Cost units for all validations of a policy, binding and parameter (`apis/cel.RuntimeCELCostBudget`)."""


class PolicyEvaluation(Protocol):
    """The expressions of a policy for one input; messages are paid with what the validations left."""

    @property
    def inputs(self) -> Inputs:
        """Return the expressions' inputs."""
        ...

    def conditions(self) -> KindEvaluation:
        """The match conditions."""
        ...

    def validations(self) -> KindEvaluation:
        """The validations."""
        ...

    def messages(self, budget: int) -> KindEvaluation:
        """The message expressions."""
        ...

    def annotations(self) -> KindEvaluation:
        """The audit annotations."""
        ...


class OwnEvaluation(NamedTuple):
    """The expressions of a policy as if there were no other one: each kind on its budget."""

    compiler: ExpressionCompiler
    inputs: Inputs

    def conditions(self) -> Evaluation | Evaluations:
        """The match conditions."""
        return evaluations(self.compiler, self.inputs, MATCH_CONDITIONS_BUDGET, matching=True)

    def validations(self) -> Evaluation | Evaluations:
        """The validations."""
        return evaluations(self.compiler, self.inputs, RUNTIME_BUDGET)

    def messages(self, budget: int) -> Evaluation | Evaluations:
        """The message expressions."""
        return evaluations(self.compiler, self.inputs, budget)

    def annotations(self) -> Evaluation | Evaluations:
        """The audit annotations."""
        return evaluations(self.compiler, self.inputs, RUNTIME_BUDGET)


_UNLIMITED = 2**62


class SharedEvaluation(dict[CompiledExpression, Evaluated]):
    """What expressions come to for one input, whatever the policies in which they stand.

    Values, errors and unknowns are those of a policy that evaluates by itself. What does depend on the policy is whether its
    budgets suffice: `most` is the most that one of the expressions may have cost, variables included that it was the first to
    read. So n expressions and variables of a policy cost n times as much at most.
    """

    __slots__ = ("_costs", "_evaluations", "inputs", "most")

    def __init__(self, inputs: Inputs) -> None:
        """Nothing is evaluated yet."""
        super().__init__()
        self.inputs = inputs
        self.most = 0
        self._costs: dict[CompiledExpression, int] = {}
        self._evaluations: dict[tuple[ExpressionKind, ExpressionCompiler, Activation], Evaluation] = {}

    def __missing__(self, compiled: CompiledExpression) -> Evaluated:
        """Evaluate an expression that nobody asked for yet."""
        evaluated = self._by_disjuncts(compiled) if compiled.kind is ExpressionKind.VALIDATION else None
        if evaluated is None:
            evaluated = self._evaluated(compiled)
        self[compiled] = evaluated
        return evaluated

    def conditions(self) -> SharedEvaluation:
        """The match conditions."""
        return self

    def validations(self) -> SharedEvaluation:
        """The validations."""
        return self

    def messages(self, budget: int) -> SharedEvaluation:
        """The message expressions."""
        del budget
        return self

    def annotations(self) -> SharedEvaluation:
        """The audit annotations."""
        return self

    @property
    def remaining(self) -> int:
        """See `covers`."""
        return _UNLIMITED

    def evaluate(self, compiled: CompiledExpression) -> Evaluated:
        """The outcome of an expression."""
        return self[compiled]

    def covers(self, limit: int) -> bool:
        """Whether so much is left of the budget: nobody has looked yet at what was spent."""
        del limit
        return True

    @property
    def computed_variables(self) -> Mapping[str, Any]:
        """None that would tell anything about a budget."""
        return {}

    def _by_disjuncts(self, compiled: CompiledExpression) -> Evaluated | None:
        """The outcome as far as the operands of `||` tell it, None where the expression must be evaluated as a whole."""
        if not compiled.disjuncts:
            return None
        cost, outcome = 0, FALSE
        for each in compiled.disjuncts:
            value = self[each].value
            cost += self._costs[each] + 1
            if value is True:
                outcome = TRUE
                break
            if value is not False:
                return None
        if cost > PER_CALL_LIMIT:
            return None
        self.most = max(self.most, cost)
        return outcome

    def _evaluated(self, compiled: CompiledExpression) -> Evaluated:
        kind, compiler = compiled.kind, compiled.compiler
        activation = self.inputs.activation(compiled.footprint, matching=kind is ExpressionKind.MATCH_CONDITION)
        key = (kind, compiler, activation)
        evaluation = self._evaluations.get(key)
        if evaluation is None:
            evaluation = self._evaluations[key] = Evaluation(compiler, activation, _UNLIMITED)
        floor = evaluation.floor
        evaluated = evaluation.evaluate(compiled)
        self._costs[compiled] = cost = floor - evaluation.floor
        self.most = max(self.most, cost)
        return evaluated
