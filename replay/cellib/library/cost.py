"""Costs of calls of the Kubernetes libraries, at run time and estimated (apiserver `pkg/cel/library/cost.go`).

Sizes are those of the core: code points, bytes, elements, entries. `traversal_cost` differs on purpose: like the
server, it counts the UTF-8 bytes of strings and rounds down.
"""

from __future__ import annotations

from collections.abc import Sequence

from replay.cel.declare.cost import (
    LIST_COST,
    ONE,
    STRING_FACTOR,
    AstNode,
    CallEstimate,
    CallEstimator,
    Range,
    fixed,
    regex_cost,
    scaled,
    sizer_size,
)
from replay.cel.declare.library import Args, CallCost
from replay.cel.value.bounds import Steps
from replay.cel.value.concat import ConcatList
from replay.cel.value.equality import elements, find, is_list, is_map, map_keys
from replay.cel.value.types import Kind
from replay.cel.value.values import Value
from replay.identity import IdentityMap


def nominal_cost(_args: Args, _result: Value) -> int:
    """Return the cost of reading a value."""
    return 1


def first_traversal(args: Args, _result: Value) -> int:
    """Return the cost of one pass over the first argument."""
    return scaled(sizer_size(args[0]), STRING_FACTOR)


def first_double_traversal(args: Args, _result: Value) -> int:
    """Return the cost of two passes over the first argument: to read it, and to build or compare the result."""
    return scaled(sizer_size(args[0]) * 2, STRING_FACTOR)


def result_double_traversal(_args: Args, result: Value) -> int:
    """Return the cost of two passes over the result."""
    return scaled(sizer_size(result) * 2, STRING_FACTOR)


def pattern_cost(args: Args, _result: Value) -> int:
    """Return the cost of a regular expression (second argument) on a text (first argument)."""
    return regex_cost(args[0], args[1])


def whole_traversal(args: Args, _result: Value) -> int:
    """Return the cost of one pass over everything inside the first argument."""
    return traversal_cost(args[0])


def traversal_cost(value: Value) -> int:
    """Return the cost of visiting a value as a tree. Raises `UndeterminedError` if that would take too long."""
    return _traversal_cost(value, Steps())


def _traversal_cost(value: Value, steps: Steps) -> int:
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogateescape")) * STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * STRING_FACTOR)
    if is_list(value):
        return _list_traversal_cost(value, steps)
    if is_map(value):
        keys = steps.each(map_keys(value))
        return sum(_traversal_cost(key, steps) + _traversal_cost(find(value, key)[1], steps) for key in keys)
    return 1


def _list_traversal_cost(values: Value, steps: Steps) -> int:
    """Return the cost of visiting a list. Parts of joined lists are visited once, however often they occur."""
    sizes: IdentityMap[Value, int] = IdentityMap()

    def cost(part: Value) -> int:
        if part not in sizes:
            if isinstance(part, ConcatList):
                sizes[part] = cost(part.left) + cost(part.right)
            else:
                sizes[part] = sum(_traversal_cost(element, steps) for element in steps.each(elements(part)))
        return sizes[part]

    return cost(values)


def list_building_cost(size: int, factor: float = 1.0) -> int:
    """Return the cost of a call that makes a list (cel-go `ext/lists.go`). A negative factor counts as one."""
    return int(size * (factor if factor >= 0 else 1.0)) + 1 + LIST_COST


def selector_cost(args: Args, _result: Value) -> int:
    """Return the cost of parsing a label or field selector. At worst it has a requirement for every two characters."""
    size = sizer_size(args[1])
    requirement = LIST_COST + 40
    return LIST_COST + scaled(size, STRING_FACTOR) + scaled(scaled(size, 0.5), float(requirement))


def fixed_cost(cost: int) -> CallCost:
    """Return a cost function for a constant cost."""
    return lambda _args, _result: cost


def argument_estimate(factor: float = STRING_FACTOR, *, sized: bool = False) -> CallEstimator:
    """Return the estimate of passes over the first argument. With `sized`, the result has the same length."""

    def estimate(_target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
        size = args[0].any_size if args else None
        return None if size is None else CallEstimate(size.scaled(factor), size if sized else None)

    return estimate


def receiver_estimate(target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of one pass over the receiver, which has the length of the result."""
    return None if target is None else CallEstimate(target.any_size.scaled(STRING_FACTOR), target.any_size)


def elements_estimate(target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the estimate of a look at every element of a list, or at a text."""
    if target is None:
        return None
    if not target.type.parameters:
        return CallEstimate(target.any_size.scaled(STRING_FACTOR))
    each = ONE
    if target.type.parameters[0].kind in (Kind.STRING, Kind.BYTES):
        each = each.plus(target.assumed.scaled(STRING_FACTOR))
    return CallEstimate(target.any_size.times(each))


def list_building_estimate(factor: float, size: Range) -> CallEstimate:
    """Return the estimate of a call that makes a list of a size (cel-go `ext/lists.go`)."""
    return CallEstimate(size.scaled(factor).plus(fixed(1 + LIST_COST)), size)


def selector_estimate(_target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate:
    """Return the estimate of parsing a selector. At worst it has a requirement for every two characters."""
    size = args[0].any_size
    requirements = size.scaled(0.5).scaled(50)
    return CallEstimate(fixed(LIST_COST).plus(size.scaled(STRING_FACTOR)).plus(requirements))


def fixed_estimate(cost: int) -> CallEstimator:
    """Return an estimate function for a constant cost."""
    return lambda _target, _args: CallEstimate(fixed(cost))
