"""What calls of the Kubernetes libraries cost at run time, and may cost before it (apiserver `pkg/cel/library/cost.go`).

Sizes are those of the core: code points, bytes, elements, entries. `traversal_cost` differs on purpose: it counts the
UTF-8 bytes of strings and rounds down, as the server does.
"""

from __future__ import annotations

from collections.abc import Sequence

from replay.cel.declare.cost import LIST_COST, STRING_FACTOR, regex_cost, scaled, sizer_size
from replay.cel.declare.estimate import ONE, AstNode, CallEstimate, CallEstimator, Range, fixed
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
    """Two passes over the first argument: reading it, and building or comparing the result."""
    return scaled(sizer_size(args[0]) * 2, STRING_FACTOR)


def result_double_traversal(_args: Args, result: Value) -> int:
    """Two passes over the result."""
    return scaled(sizer_size(result) * 2, STRING_FACTOR)


def pattern_cost(args: Args, _result: Value) -> int:
    """A regular expression (second argument) over a text (first argument)."""
    return regex_cost(args[0], args[1])


def whole_traversal(args: Args, _result: Value) -> int:
    """Return the cost of one pass over everything inside the first argument."""
    return traversal_cost(args[0])


def traversal_cost(value: Value) -> int:
    """The cost of visiting a value as a tree; raises `UndeterminedError` where that would take too long."""
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
    """Lists that were joined are counted once, however often they come."""
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
    """The cost of a call that makes a list (cel-go `ext/lists.go`); a negative factor counts as one."""
    return int(size * (factor if factor >= 0 else 1.0)) + 1 + LIST_COST


def selector_cost(args: Args, _result: Value) -> int:
    """Parsing a label or field selector: a requirement for every two characters at worst."""
    size = sizer_size(args[1])
    requirement = LIST_COST + 40
    return LIST_COST + scaled(size, STRING_FACTOR) + scaled(scaled(size, 0.5), float(requirement))


def fixed_cost(cost: int) -> CallCost:
    """A cost that does not depend on the arguments."""
    return lambda _args, _result: cost


def argument_estimate(factor: float = STRING_FACTOR, *, sized: bool = False) -> CallEstimator:
    """Passes over the first argument; `sized` says that the result is as long."""

    def estimate(_target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
        size = args[0].any_size if args else None
        return None if size is None else CallEstimate(size.scaled(factor), size if sized else None)

    return estimate


def receiver_estimate(target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of one pass over the receiver, which has the length of the result."""
    return None if target is None else CallEstimate(target.any_size.scaled(STRING_FACTOR), target.any_size)


def elements_estimate(target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    """A look at every element of a list, or at a text."""
    if target is None:
        return None
    if not target.type.parameters:
        return CallEstimate(target.any_size.scaled(STRING_FACTOR))
    each = ONE
    if target.type.parameters[0].kind in (Kind.STRING, Kind.BYTES):
        each = each.plus(target.assumed.scaled(STRING_FACTOR))
    return CallEstimate(target.any_size.times(each))


def list_building_estimate(factor: float, size: Range) -> CallEstimate:
    """The estimate of a call that makes a list of a size (cel-go `ext/lists.go`)."""
    return CallEstimate(size.scaled(factor).plus(fixed(1 + LIST_COST)), size)


def selector_estimate(_target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate:
    """Parsing a label or field selector: a requirement for every two characters at worst."""
    size = args[0].any_size
    requirements = size.scaled(0.5).scaled(50)
    return CallEstimate(fixed(LIST_COST).plus(size.scaled(STRING_FACTOR)).plus(requirements))


def fixed_estimate(cost: int) -> CallEstimator:
    """An estimate that does not depend on the arguments."""
    return lambda _target, _args: CallEstimate(fixed(cost))
