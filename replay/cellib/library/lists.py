"""Functions on lists: those of Kubernetes (apiserver `pkg/cel/library/lists.go`), and lists as sets (cel-go `ext/sets.go`).

Those of Kubernetes compare with the elements' own order and equality. A comparison that fails (numbers with NaN,
elements of different types) is not an error. It means "neither before nor after".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replay.cel.declare.cost import ONE, AstNode, CallEstimate, CallEstimator, sizer_size
from replay.cel.declare.library import CallCost, Function, Implementation, Library, Overload, overloaded
from replay.cel.value.arithmetic import add
from replay.cel.value.bounds import Steps
from replay.cel.value.equality import NO_SUCH_OVERLOAD, compare, contains, elements, is_list, value_equal
from replay.cel.value.timestamp import Duration
from replay.cel.value.traits import ADDER, COMPARER, has_trait
from replay.cel.value.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_type,
    type_param,
)
from replay.cel.value.values import EvalError, Uint, Value
from replay.cellib.library.cost import elements_estimate, whole_traversal

_COMPARABLE = {
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "bool": BOOL,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "string": STRING,
    "bytes": BYTES,
}
_SUMMABLE = {"int": (INT, 0), "uint": (UINT, Uint(0)), "double": (DOUBLE, 0.0), "duration": (DURATION, Duration(0))}
_A = type_param("A")


def _order(left: Value, right: Value) -> int | None:
    try:
        return compare(left, right)
    except EvalError:
        return None


def _require(element: Value, trait: str) -> None:
    if not has_trait(element, trait):
        raise EvalError(NO_SUCH_OVERLOAD)


def _is_sorted(values: Value) -> bool:
    previous, started = None, False
    for element in elements(values):
        _require(element, COMPARER)
        if started and _order(previous, element) == 1:
            return False
        previous, started = element, True
    return True


def _extreme(name: str, worse: int) -> Implementation:
    """Return `min` or `max`. `worse` is the comparison of the best element so far with one that beats it."""

    def choose(values: Value) -> Value:
        best, started = None, False
        for element in elements(values):
            _require(element, COMPARER)
            if not started or _order(best, element) == worse:
                best, started = element, True
        if not started:
            raise EvalError(f"{name} called on empty list")
        return best

    return choose


def _sum_from(zero: Value) -> Implementation:
    def total(values: Value) -> Value:
        result = zero
        for element in elements(values):
            _require(element, ADDER)
            result = add(result, element)
        return result

    return total


def _index_of(values: Value, item: Value) -> int:
    steps = Steps()
    for index, element in enumerate(steps.each(elements(values))):
        if value_equal(element, item, steps) is True:
            return index
    return -1


def _last_index_of(values: Value, item: Value) -> int:
    last = -1
    steps = Steps()
    for index, element in enumerate(steps.each(elements(values))):
        if value_equal(element, item, steps) is True:
            last = index
    return last


def _includes(target: Value, item: Value) -> bool:
    if is_list(target):
        return _index_of(target, item) >= 0
    return value_equal(target, item) is True


def _per_type(function: str, make_id: Callable[[str], str], result: Type | None, body: Implementation) -> Function:
    return Function(
        function,
        tuple(
            Overload(
                make_id(name),
                (list_type(type_),),
                result or type_,
                member=True,
                implementation=body,
                cost=whole_traversal,
                estimate=elements_estimate,
            )
            for name, type_ in _COMPARABLE.items()
        ),
    )


def _binary(  # noqa: PLR0913 - what a function is
    function: str,
    id_: str,
    args: tuple[Type, Type],
    result: Type,
    body: Implementation,
    *,
    estimate: CallEstimator = elements_estimate,
) -> Function:
    overload = Overload(id_, args, result, member=True, implementation=body, cost=whole_traversal, estimate=estimate)
    return Function(function, (overload,))


def _includes_estimate(target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    if target is None or target.type.parameters:
        return elements_estimate(target, args)
    return CallEstimate(target.any_size)


_SUM = Function(
    "sum",
    tuple(
        Overload(
            f"list_{name}_sum_{name}",
            (list_type(type_),),
            type_,
            member=True,
            implementation=_sum_from(zero),
            cost=whole_traversal,
            estimate=elements_estimate,
        )
        for name, (type_, zero) in _SUMMABLE.items()
    ),
)
_VERSION_0 = (
    _per_type("isSorted", lambda name: f"list_{name}_is_sorted_bool", BOOL, _is_sorted),
    _SUM,
    _per_type("max", lambda name: f"list_{name}_max_{name}", None, _extreme("max", -1)),
    _per_type("min", lambda name: f"list_{name}_min_{name}", None, _extreme("min", 1)),
    _binary("indexOf", "list_a_index_of_int", (list_type(_A), _A), INT, _index_of),
    _binary("lastIndexOf", "list_a_last_index_of_int", (list_type(_A), _A), INT, _last_index_of),
)

LISTS = Library(name="kubernetes.lists", functions=_VERSION_0)
"""The lists library up to Kubernetes 1.36."""

LISTS_1 = Library(
    name="kubernetes.lists",
    functions=(
        *_VERSION_0,
        _binary("includes", "list_includes_dyn_dyn", (DYN, DYN), BOOL, _includes, estimate=_includes_estimate),
    ),
)
"""The lists library since Kubernetes 1.37, with `includes`."""


_LIST = list_type(type_param("T"))


def _contains(values: Value, part: Value) -> bool:
    return _contains_all(values, part, Steps())


def _contains_all(values: Value, part: Value, steps: Steps) -> bool:
    return all(contains(values, element, steps) is True for element in elements(part))


def _equivalent(left: Value, right: Value) -> bool:
    steps = Steps()
    return _contains_all(left, right, steps) and _contains_all(right, left, steps)


def _intersects(left: Value, right: Value) -> bool:
    steps = Steps()
    return any(contains(right, element, steps) is True for element in elements(left))


def _cost(factor: int) -> CallCost:
    """Return the cost of comparing every element with every other, `factor` times."""
    return lambda args, _result: 1 + sizer_size(args[0]) * sizer_size(args[1]) * factor


def _estimate(factor: int) -> CallEstimator:
    return lambda _target, args: CallEstimate(args[0].any_size.times(args[1].any_size).scaled(factor).plus(ONE))


SETS = Library(
    name="cel.lib.ext.sets",
    functions=tuple(
        overloaded(
            f"sets.{name}",
            (f"list_sets_{name}_list", (_LIST, _LIST), BOOL, body),
            cost_by_id=_cost(factor),
            estimate=_estimate(factor),
        )
        for name, body, factor in (
            ("contains", _contains, 1),
            ("equivalent", _equivalent, 2),
            ("intersects", _intersects, 1),
        )
    ),
)
"""`sets.contains`, `sets.equivalent` and `sets.intersects`."""
