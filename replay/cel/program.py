"""A planned expression, ready to be evaluated any number of times."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from replay.cel.ast.footprint import footprint_of
from replay.cel.ast.tree import Ast
from replay.cel.ast.walk import with_deep_stack
from replay.cel.check.estimate import estimate
from replay.cel.compiled.codegen import Compiled, compile_expression
from replay.cel.compiled.emitter import MessageProvider, NotCompiledError
from replay.cel.declare.cost import ANY_SIZE, CostTracker, Range
from replay.cel.declare.dispatcher import Dispatcher
from replay.cel.strict.frame import Frame
from replay.cel.strict.step import Step
from replay.cel.strict.trace import Trace, TracingTracker
from replay.cel.value.bounds import UndeterminedError, UndeterminedValue
from replay.cel.value.partial import unresolved
from replay.cel.value.values import CostLimitExceeded, EvalError, PanicError, Unknown, Value


class EvalResult(Struct, frozen=True):
    """Result of a strict evaluation: a value, an `EvalError` or an `Unknown`, and the cost."""

    value: Value
    cost: int

    @property
    def error(self) -> str | None:
        """The error text, None if the result is a value or an unknown."""
        return self.value.message if isinstance(self.value, EvalError) else None

    @property
    def unknown(self) -> Unknown | None:
        """The unknown that names the missing input, None if the result is certain."""
        return unresolved(self.value)


class Program:
    """The steps of an expression, and its cost limit."""

    def __init__(
        self,
        ast: Ast,
        step: Step,
        dispatcher: Dispatcher,
        messages: MessageProvider,
        limit: int | None = None,
    ) -> None:
        """`limit` None evaluates without a cost limit."""
        self.ast = ast
        self._step = step
        self._dispatcher = dispatcher
        self._messages = messages
        self._limit = limit

    @cached_property
    def compiled(self) -> Compiled | None:
        """The expression as Python code, compiled on first use, or None if only the strict engine can evaluate it."""
        return self._compiled[0]

    @property
    def why_not_compiled(self) -> str:
        """The reason why there is no Python code, empty if there is some."""
        return self._compiled[1]

    @cached_property
    def _compiled(self) -> tuple[Compiled | None, str]:
        if not self.ast.is_checked:
            return None, "it was not checked"
        try:
            return compile_expression(self.ast, self._dispatcher, self._messages), ""
        except NotCompiledError as error:
            return None, str(error)
        except RecursionError:
            return None, "it is nested too deeply"
        except UndeterminedError as error:
            return None, str(error)

    def estimated_cost(self, assumed: Range = ANY_SIZE) -> Range:
        """Return the range of possible costs. `assumed` is the size of the input's values. The expression must be checked."""
        return estimate(self.ast, self._dispatcher.estimates, assumed)

    def eval(self, bindings: Mapping[str, Value]) -> EvalResult:
        """Evaluate with the given input. Never raises an exception."""
        if not self._reads_input:
            return self._constant
        return self._counted(bindings)

    @cached_property
    def _reads_input(self) -> bool:
        """Whether the result can depend on the input. A tree that was not checked may read anything."""
        return not self.ast.is_checked or bool(footprint_of(self.ast))

    @cached_property
    def _constant(self) -> EvalResult:
        return self._counted({})

    def _tracker(self) -> CostTracker:
        return CostTracker(self._dispatcher.costs, self._dispatcher.standard_costs, self._limit)

    def _counted(self, bindings: Mapping[str, Value]) -> EvalResult:
        try:
            return with_deep_stack(lambda: self._eval(bindings, self._tracker()))
        except RecursionError:
            return EvalResult(Unknown((UndeterminedValue("a value in it is nested too deeply"),)), 0)

    def trace(self, bindings: Mapping[str, Value]) -> tuple[EvalResult, Trace]:
        """Evaluate, and also return the value of every step, for explanations."""

        def traced() -> tuple[EvalResult, Trace]:
            tracker = TracingTracker(self._dispatcher.costs, self._dispatcher.standard_costs, self._limit)
            return self._eval(bindings, tracker), Trace(tuple(tracker.steps))

        # A tracker begins anew with each attempt: `with_deep_stack` may need two.
        return with_deep_stack(traced)

    def _eval(self, bindings: Mapping[str, Value], tracker: CostTracker) -> EvalResult:
        try:
            value = self._step.exec(Frame(bindings, tracker, self._dispatcher.release))
        except CostLimitExceeded as limit:
            value = EvalError(str(limit))
        except PanicError as panic:
            value = EvalError(f"internal error: {panic}")
        except UndeterminedError as error:
            value = Unknown((UndeterminedValue(str(error)),))
        except MemoryError:
            value = Unknown((UndeterminedValue("it needs more memory than there is"),))
        return EvalResult(value, tracker.cost)
