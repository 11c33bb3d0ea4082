"""Evaluation of a validating policy's expressions: with the policy's own budgets, or shared between policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from replay.admission.inputs import BUDGET as MATCH_CONDITIONS_BUDGET
from replay.admission.inputs import Evaluations, Inputs, KindEvaluation, evaluations
from replay.cellib.activation import Activation
from replay.cellib.composition import FALSE, TRUE, Evaluated, Evaluation
from replay.cellib.environment import PER_CALL_LIMIT, ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler

RUNTIME_BUDGET = 10_000_000
"""Cost units for all validations of a policy, binding and parameter (`apis/cel.RuntimeCELCostBudget`)."""


class PolicyEvaluation(Protocol):
    """Evaluates the expressions of a policy for one input. Messages have the budget that the validations left."""

    @property
    def inputs(self) -> Inputs:
        """Return the expressions' inputs."""
        ...

    def conditions(self) -> KindEvaluation:
        """Return the evaluation of the match conditions."""
        ...

    def validations(self) -> KindEvaluation:
        """Return the evaluation of the validations."""
        ...

    def messages(self, budget: int) -> KindEvaluation:
        """Return the evaluation of the message expressions."""
        ...

    def annotations(self) -> KindEvaluation:
        """Return the evaluation of the audit annotations."""
        ...


class OwnEvaluation(NamedTuple):
    """Evaluates the expressions of one policy alone: each kind with its own budget."""

    compiler: ExpressionCompiler
    inputs: Inputs

    def conditions(self) -> Evaluation | Evaluations:
        """Return the evaluation of the match conditions."""
        return evaluations(self.compiler, self.inputs, MATCH_CONDITIONS_BUDGET, matching=True)

    def validations(self) -> Evaluation | Evaluations:
        """Return the evaluation of the validations."""
        return evaluations(self.compiler, self.inputs, RUNTIME_BUDGET)

    def messages(self, budget: int) -> Evaluation | Evaluations:
        """Return the evaluation of the message expressions."""
        return evaluations(self.compiler, self.inputs, budget)

    def annotations(self) -> Evaluation | Evaluations:
        """Return the evaluation of the audit annotations."""
        return evaluations(self.compiler, self.inputs, RUNTIME_BUDGET)


_UNLIMITED = 2**62


class SharedEvaluation(dict[CompiledExpression, Evaluated]):
    """Results of expressions for one input, shared by all policies that contain them.

    Values, errors and unknowns are the same as for a policy alone. Only whether the budgets suffice depends on the
    policy. `most` is the highest possible cost of one expression, including the variables that it read first. So n
    expressions and variables of a policy cost at most n times as much.
    """

    __slots__ = ("_costs", "_evaluations", "inputs", "most")

    def __init__(self, inputs: Inputs) -> None:
        """Start without results."""
        super().__init__()
        self.inputs = inputs
        self.most = 0
        self._costs: dict[CompiledExpression, int] = {}
        self._evaluations: dict[tuple[ExpressionKind, ExpressionCompiler, Activation], Evaluation] = {}

    def __missing__(self, compiled: CompiledExpression) -> Evaluated:
        """Evaluate an expression at its first use."""
        kind, compiler = compiled.kind, compiled.compiler
        if compiled.disjuncts and kind is ExpressionKind.VALIDATION:
            outcome = self._by_disjuncts(compiled)
            if outcome is not None:
                self[compiled] = outcome
                return outcome
        activation = self.inputs.activation(compiled.footprint, matching=kind is ExpressionKind.MATCH_CONDITION)
        key = (kind, compiler, activation)
        evaluation = self._evaluations.get(key)
        if evaluation is None:
            evaluation = self._evaluations[key] = Evaluation(compiler, activation, _UNLIMITED)
        floor = evaluation.floor
        self[compiled] = evaluated = evaluation.evaluate(compiled)
        self._costs[compiled] = cost = floor - evaluation.floor
        self.most = max(self.most, cost)
        return evaluated

    def conditions(self) -> SharedEvaluation:
        """Return this evaluation: all kinds share it."""
        return self

    def validations(self) -> SharedEvaluation:
        """Return this evaluation: all kinds share it."""
        return self

    def messages(self, budget: int) -> SharedEvaluation:
        """Return this evaluation: all kinds share it."""
        del budget
        return self

    def annotations(self) -> SharedEvaluation:
        """Return this evaluation: all kinds share it."""
        return self

    @property
    def remaining(self) -> int:
        """See `covers`."""
        return _UNLIMITED

    evaluate = dict.__getitem__
    """Returns the result of an expression."""

    def covers(self, limit: int) -> bool:
        """Return true: the cost is compared with the budget later, by `most`."""
        del limit
        return True

    @property
    def computed_variables(self) -> Mapping[str, Any]:
        """Always empty: variables are not charged to a budget here."""
        return {}

    def _by_disjuncts(self, compiled: CompiledExpression) -> Evaluated | None:
        """Return the result that the operands of `||` determine, None if the whole expression must be evaluated."""
        cost, outcome = 0, FALSE
        for each in compiled.disjuncts:
            value = self[each].value
            cost += self._costs[each] + 1
            if value is True:
                outcome = TRUE
                break
            # An error or an unknown operand needs the rules of `||` for all operands together.
            if value is not False:
                return None
        if cost > PER_CALL_LIMIT:
            return None
        self.most = max(self.most, cost)
        return outcome
