"""Expressions of one policy, evaluated together (apiserver `pkg/admission/plugin/cel/composition.go`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from msgspec import Struct

from replay.cel.ast.walk import with_deep_stack
from replay.cel.compiled.codegen import Compiled
from replay.cel.compiled.fastpath import SCALARS, LeaveError
from replay.cel.value.bounds import UndeterminedError, UndeterminedValue
from replay.cel.value.concat import materialized
from replay.cel.value.values import Unknown, Value
from replay.cellib.activation import Activation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.variables import CompiledVariable, FastVariables, VariableValues
from replay.kube.attributes import Missing


class _Remaining(int):
    """Lower bound of the remaining budget, with a function for the exact number."""

    exact: Callable[[], int]

    def __new__(cls, least: int, exact: Callable[[], int]) -> Self:
        """`exact` is called if the difference matters."""
        budget = super().__new__(cls, least)
        budget.exact = exact
        return budget


OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"

_NO_VARIABLES: Mapping[str, Value] = {}


class Evaluated(NamedTuple):
    """The outcome of one expression: a value, an error text, or the unknown parts.

    `cost` includes variables that this expression was the first to read. It is None if it was not counted.
    `out_of_budget` means that the budget of the evaluation is exhausted, which ends the evaluation.
    """

    value: Value = None
    error: str | None = None
    out_of_budget: bool = False
    unknown: tuple[Missing, ...] = ()
    cost: int | None = None


TRUE = Evaluated(True)
FALSE = Evaluated(False)


class Evaluation:
    """The evaluation of expressions for one input, with one budget.

    Compiled code answers if it can, without counting. `floor` is the budget minus an upper bound of the cost of
    compiled code. The strict engine counts exactly. If the floor is reached, or the exact rest of the budget is needed,
    the uncounted expressions are evaluated again by the strict engine, in order.
    """

    __slots__ = (
        "_activation",
        "_bounded",
        "_budget",
        "_compiler",
        "_exact",
        "_exhausted",
        "_fast",
        "_kind",
        "_names",
        "_strict",
        "_uncounted",
        "_variables",
        "floor",
    )

    def __init__(
        self,
        compiler: ExpressionCompiler,
        bindings: Mapping[str, Value | Missing] | Activation,
        budget: int,
        *,
        exact: bool = False,
        variables: Mapping[str, Value] = _NO_VARIABLES,
    ) -> None:
        """`bindings` are those of `object`, `oldObject`, `request`, `namespaceObject`, `params`, `authorizer` that exist.

        A `Missing` or `PartialObject` is unknown, in whole or in part. An object of a built-in kind is a `TypedMap`.
        Evaluations can share an `Activation` of bindings. `exact` counts everything, so that each `Evaluated.cost` is
        known. `variables` are the values of variables that were computed before, for other bindings.
        """
        self._activation = bindings if isinstance(bindings, Activation) else Activation(bindings)
        self._compiler = compiler
        self._exact = exact
        self._exhausted = False
        self._fast: FastVariables | None = None
        self._kind: ExpressionKind | None = None
        self._names: Mapping[str, Value] = _NO_VARIABLES
        self._strict: _StrictVariables | None = None
        self._uncounted: list[CompiledExpression] = []
        self._variables = variables
        self._budget = budget
        self.floor = int(budget)
        """Lower bound of the remaining budget."""
        self._bounded = 0

    def covers(self, limit: int) -> bool:
        """Return whether at least `limit` is certainly left of the budget."""
        return self.floor >= limit

    @property
    def remaining(self) -> int:
        """The remaining budget, as a lower bound that becomes exact when another evaluation needs that."""
        return _Remaining(self.floor, self.exactly_remaining)

    def exactly_remaining(self) -> int:
        """Return the exact remaining budget, by strict evaluation of everything that was not counted."""
        self._recount()
        return self.floor

    @property
    def computed_variables(self) -> Mapping[str, Value]:
        """Values of the variables that were read."""
        computed = {**self._variables, **(self._fast or {})}
        return computed if self._strict is None else {**computed, **self._strict.values().computed}

    def evaluate(self, compiled: CompiledExpression) -> Evaluated:
        """Evaluate the next expression. The order of calls is that of the server."""
        program = compiled.program
        if self._exhausted:
            return Evaluated(error=OUT_OF_BUDGET, out_of_budget=True)
        if program is None:
            return Evaluated(error=f"compilation error: {compiled.error}", cost=0)
        if not self._exact:
            code = program.compiled
            # Compiled code does not count its cost. It may only run if even its upper bound fits into the budget.
            if code is not None and code.bound < self.floor:
                try:
                    return self._run(code, compiled)
                except Exception:  # noqa: BLE001, S110 - whatever compiled code does not answer is for the strict engine
                    pass
        return self._evaluate_strictly(compiled)

    def _run(self, code: Compiled, compiled: CompiledExpression) -> Evaluated:
        """Return the result of compiled code. Raises if it has none, or may have used up the budget."""
        if compiled.kind is not self._kind:
            self._kind, self._names = compiled.kind, self._activation.plain(compiled.kind, self._compiler.views)
        variables = self._fast
        if variables is None and self._compiler.variables:
            variables = FastVariables(self._compiler.variables, self._names, self._strictly(), compiled.kind)
            if self._variables:
                variables.take_over(self._variables)
            self._fast = variables
        value = code.function(self._names, _NO_VARIABLES if variables is None else variables)
        spent = code.bound
        if code.has_loops:
            value, looped = value
            spent += looped
        if variables is not None:
            spent += variables.bound
            variables.bound = 0
            # What variables cost that compiled code left to the strict engine is exact already.
            self.floor -= variables.strict.take_cost()
        # The upper bound no longer fits into the budget, so the strict engine must count exactly.
        if spent >= self.floor:
            raise LeaveError
        self.floor -= spent
        self._bounded += spent
        self._uncounted.append(compiled)
        if value is True or value is False:
            return TRUE if value else FALSE
        return Evaluated(value if type(value) in SCALARS else _handed_on(compiled.kind, value))

    def _strictly(self) -> _StrictVariables:
        if self._strict is None:
            self._strict = _StrictVariables(self._compiler, self._activation, self._variables)
        return self._strict

    def _evaluate_strictly(self, compiled: CompiledExpression) -> Evaluated:
        assert compiled.program is not None
        variables = self._strictly().values()
        scope = self._activation.scope(self._compiler.views)
        scope.use_kind(compiled.kind)
        result = scope.eval(compiled.program, variables)
        cost = variables.take_cost() + result.cost
        # The floor is a lower bound. Before an error is reported, the exact rest of the budget decides.
        if cost > self.floor:
            self._recount()
        if cost > self.floor:
            self._exhausted = True
            return Evaluated(error=OUT_OF_BUDGET, out_of_budget=True)
        self.floor -= cost
        if result.unknown is not None:
            return Evaluated(unknown=_missing(result.unknown), cost=cost)
        if result.error is not None:
            return Evaluated(error=result.error, cost=cost)
        value = result.value
        if type(value) in SCALARS:
            return Evaluated(value, cost=cost)
        try:
            return Evaluated(with_deep_stack(lambda: _handed_on(compiled.kind, value)), cost=cost)
        except UndeterminedError as error:
            return Evaluated(unknown=(_abandoned(str(error)),), cost=cost)

    def _recount(self) -> None:
        """Replace upper bounds by exact costs: of the budget that was handed over, and of the results of compiled code."""
        if isinstance(self._budget, _Remaining):
            self.floor += self._budget.exact() - self._budget
            self._budget = 0
        if not self._uncounted:
            return
        variables = self._strictly().values()
        scope = self._activation.scope(self._compiler.views)
        cost = 0
        for compiled in self._uncounted:
            assert compiled.program is not None
            scope.use_kind(compiled.kind)
            cost += scope.eval(compiled.program, variables).cost
        self.floor += self._bounded - cost - variables.take_cost()
        self._bounded = 0
        self._uncounted.clear()


def _missing(unknown: Unknown) -> tuple[Missing, ...]:
    """Return what is missing, including the reason of an evaluation that was given up."""
    missing = (_abandoned(str(item)) if isinstance(item, UndeterminedValue) else item for item in unknown.missing)
    return tuple(missing)  # type: ignore[arg-type]  # to CEL, what is missing is opaque


def _abandoned(reason: str) -> Missing:
    return Missing(UndeterminedValue.path, reason)


def _handed_on(kind: ExpressionKind, value: Value) -> Value:
    """Return a value for the caller. A mutation's value stays unchanged, because its further use depends on its form."""
    value_outside = materialized(value)
    return value if kind.is_mutation else value_outside


class _StrictVariables(Struct, eq=False):
    """The variables for the strict engine, built on first use.

    INVARIANT: nothing here refers to the `Evaluation`, which contains the variables of compiled code. A reference cycle
    would keep the objects of every request until the garbage collector finds them, and make it run all the time.
    """

    _compiler: ExpressionCompiler
    _activation: Activation
    _earlier: Mapping[str, Value]
    _values: VariableValues | None = None

    def values(self) -> VariableValues:
        if self._values is None:
            variables = {
                name: CompiledVariable(each.program, each.error) for name, each in self._compiler.variables.items()
            }
            scope = self._activation.scope(self._compiler.views)
            self._values = self._compiler.variable_values(variables, scope, self._earlier)
        return self._values

    def value(self, kind: ExpressionKind, name: str) -> Value:
        """Return a variable that the compiled code cannot compute."""
        self._activation.scope(self._compiler.views).use_kind(kind)
        return self.values().find_key(name)[1]

    def take_cost(self) -> int:
        """Return what variables have cost since the last call."""
        return self._values.take_cost() if self._values is not None else 0
