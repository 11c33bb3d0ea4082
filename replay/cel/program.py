"""A planned expression, ready to be evaluated any number of times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replay.cel.ast import Ast
from replay.cel.cost import CallCosts, CostTracker
from replay.cel.frame import Frame
from replay.cel.step import Step
from replay.cel.values import CostLimitExceeded, EvalError, PanicError, Unknown, Value

PER_CALL_LIMIT = 1_000_000
"""The cost at which the API server cancels one expression (`apis/cel.PerCallLimit`)."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a strict evaluation: a value, an `EvalError` or an `Unknown`, and what it cost."""

    value: Value
    cost: int

    @property
    def error(self) -> str | None:
        """The error text, None where there is a value or an unknown."""
        return self.value.message if isinstance(self.value, EvalError) else None

    @property
    def unknown(self) -> Unknown | None:
        """What was missing, None where the result is certain."""
        return self.value if isinstance(self.value, Unknown) else None


class Program:
    """The steps of an expression with its cost limit."""

    def __init__(self, ast: Ast, step: Step, costs: CallCosts, limit: int | None = PER_CALL_LIMIT) -> None:
        """`limit` None evaluates without bound."""
        self.ast = ast
        self._step = step
        self._costs = costs
        self._limit = limit

    def eval(self, bindings: Mapping[str, Value]) -> Result:
        """Evaluate with the given input; never raises."""
        tracker = CostTracker(self._costs, self._limit)
        try:
            value = self._step.exec(Frame(bindings, tracker))
        except CostLimitExceeded as limit:
            value = EvalError(str(limit))
        except PanicError as panic:
            value = EvalError(f"internal error: {panic}")
        except RecursionError:
            value = EvalError("internal error: evaluation is nested too deeply")
        return Result(value, tracker.cost)
