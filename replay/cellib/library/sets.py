"""Lists as sets (cel-go `ext/sets.go`)."""

from __future__ import annotations

from replay.cel.declare.cost import ONE, CallEstimate, CallEstimator, sizer_size
from replay.cel.declare.library import CallCost, Library, overloaded
from replay.cel.value.bounds import Steps
from replay.cel.value.equality import contains, elements
from replay.cel.value.types import BOOL, list_type, type_param
from replay.cel.value.values import Value

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
