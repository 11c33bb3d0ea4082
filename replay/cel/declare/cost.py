"""The run-time cost of an evaluation, counted as cel-go's cost tracker does (`interpreter/runtimecost.go`).

Each finished step reports its value. A call is charged by the values of its arguments, which are found on a stack by
the ids of their nodes. If the stack does not hold them (an argument was not evaluated), the call is free. The stack is
reproduced here because it decides what is charged when evaluation takes a shortcut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from replay.cel.ast.tree import Expr
from replay.cel.release import Release
from replay.cel.value.text import type_name
from replay.cel.value.types import Type
from replay.cel.value.values import CostLimitExceeded, OpaqueValue, OptionalValue, Value

STRING_FACTOR = 0.1
REGEX_FACTOR = 0.25
SELECT_COST = 1
LIST_COST = 10
MAP_COST = 30
STRUCT_COST = 40

CallCosts = Mapping[str, Callable[[tuple[Value, ...], Value], int]]
"""The cost of calls by overload id or, for dynamic dispatch and for costs by name, by function name."""


def actual_size(value: Value) -> int:
    """Return the number of code points, bytes, elements or entries, or 1 if a value has no size.

    An optional has the size of its value.
    """
    if isinstance(value, OptionalValue) and value.has_value:
        return actual_size(value.value)
    return sizer_size(value)


def sizer_size(value: Value) -> int:
    """Return `actual_size` without looking into optionals, as the Kubernetes libraries count."""
    if isinstance(value, OpaqueValue):
        return int(getattr(value, "size", 1))
    if isinstance(value, str | bytes) or type_name(value) in ("list", "map"):
        return len(value)
    return 1


def scaled(size: float, factor: float) -> int:
    """Return a size times a cost factor, rounded up."""
    return math.ceil(size * factor)


def regex_cost(text: Value, pattern: Value) -> int:
    """Return the cost of matching: the length of the text plus one, times the length of the pattern, both scaled."""
    return scaled(1.0 + actual_size(text), STRING_FACTOR) * scaled(actual_size(pattern), REGEX_FACTOR)


def _second_size(args: Sequence[Value]) -> int:
    return scaled(actual_size(args[1]), STRING_FACTOR)


def _first_size(args: Sequence[Value]) -> int:
    return scaled(actual_size(args[0]), STRING_FACTOR)


def _smaller_size(args: Sequence[Value]) -> int:
    return scaled(min(actual_size(args[0]), actual_size(args[1])), STRING_FACTOR)


def _equality(args: Sequence[Value]) -> int:
    # apiserver `pkg/cel/library/cost.go`: equality of its own types costs one, since Kubernetes 1.32 and so cel-go 0.22.
    return 1 if isinstance(args[0], OpaqueValue) else _smaller_size(args)


def _joined_size(args: Sequence[Value]) -> int:
    return scaled(actual_size(args[0]) + actual_size(args[1]), STRING_FACTOR)


_ORDER = ("less", "greater", "less_equals", "greater_equals")

StandardCosts = Mapping[str, Callable[[Sequence[Value]], int]]
"""The cost of standard library calls by overload id, for those that do not cost one."""

_STANDARD_COSTS: StandardCosts = {
    "starts_with_string": _second_size,
    "ends_with_string": _second_size,
    "string_to_bytes": _first_size,
    "bytes_to_string": _first_size,
    "strings_quote": _first_size,
    "string_format": _first_size,
    "in_list": lambda args: actual_size(args[1]),
    **{f"{order}_{kind}": _smaller_size for order in _ORDER for kind in ("string", "bytes")},
    "equals": _equality,
    "not_equals": _smaller_size,
    "add_string": _joined_size,
    "add_bytes": _joined_size,
    "matches": lambda args: regex_cost(args[0], args[1]),
    "matches_string": lambda args: regex_cost(args[0], args[1]),
    "contains_string": lambda args: _first_size(args) * _second_size(args),
}
_COSTS_UNTIL_0_26: StandardCosts = {
    "starts_with_string": _first_size,
    "ends_with_string": _first_size,
    "matches": lambda _: 1,
}


def standard_costs(release: Release) -> StandardCosts:
    """Return the costs of standard library calls in a release."""
    if release >= Release.V0_29:
        return _STANDARD_COSTS
    equality = _STANDARD_COSTS["equals"] if release >= Release.V0_22 else _smaller_size
    return {**_STANDARD_COSTS, **_COSTS_UNTIL_0_26, "equals": equality}


class CostTracker:
    """The cost of one evaluation, and the stack of values from which it is computed.

    `limit` is the cost past which evaluation is cancelled with `CostLimitExceeded`, None for no limit.
    """

    __slots__ = ("_calls", "_limit", "_places", "_stack", "_standard", "cost")

    def __init__(self, calls: CallCosts, standard: StandardCosts, limit: int | None) -> None:
        """Start at zero. `calls` are the costs that libraries declare, `standard` those of the standard library."""
        self._calls = calls
        self._standard = standard
        self._limit = limit
        self._stack: list[tuple[int, Value]] = []
        # Where each id stands on the stack, lowest first: searching it would take quadratic time over a long fold.
        self._places: dict[int, list[int]] = {}
        self.cost = 0

    def push(self, node_id: int, value: Value) -> None:
        """Record the value of a finished step and enforce the limit."""
        places = self._places.get(node_id)
        if places is None:
            places = self._places[node_id] = []
        places.append(len(self._stack))
        self._stack.append((node_id, value))
        # A cost below zero has not been brought above it by what it was added to: Go has the greatest numbers there.
        if self._limit is not None and not 0 <= self.cost <= self._limit:
            raise CostLimitExceeded

    def drop(self, node_id: int) -> None:
        """Remove the topmost value of a node and everything above it."""
        places = self._places.get(node_id)
        if places:
            self._truncate(places[-1])

    def _truncate(self, size: int) -> None:
        stack, places = self._stack, self._places
        while len(stack) > size:
            places[stack.pop()[0]].pop()

    def drop_args(self, node_ids: Sequence[int]) -> tuple[Value, ...] | None:
        """Remove the values of the arguments from the stack and return them in order, or None if one is missing."""
        stack, places = self._stack, self._places
        values: list[Value] = []
        for node_id in reversed(node_ids):
            own = places.get(node_id)
            if not own:
                return None
            values.append(stack[own[-1]][1])
            self._truncate(own[-1])
        values.reverse()
        return tuple(values)

    def call(self, function: str, overload_id: str, arg_ids: Sequence[int], result: Value) -> None:
        """Charge a finished call."""
        args = self.drop_args(arg_ids)
        if args is None:
            return
        declared = self._calls.get(overload_id) or self._calls.get(function)
        if declared is not None:
            self.cost += declared(args, result)
            return
        standard = self._standard.get(overload_id)
        self.cost += 1 if standard is None else standard(args)


# Cost estimates that libraries declare for calls (cel-go `checker.CallEstimate`).

UNBOUNDED = 2**64 - 1


class Range(NamedTuple):
    """A least and a greatest cost or size. Sums and products stop at `UNBOUNDED`."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        """Return the sum."""
        return Range(min(self.least + other.least, UNBOUNDED), min(self.most + other.most, UNBOUNDED))

    def times(self, other: Range) -> Range:
        """Return the product."""
        return Range(min(self.least * other.least, UNBOUNDED), min(self.most * other.most, UNBOUNDED))

    def scaled(self, factor: float) -> Range:
        """Return both ends times a factor, rounded up, by way of doubles as in Go."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Range) -> Range:
        """Return the smallest range that contains both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def _scaled(value: int, factor: float) -> int:
    number = float(value)
    if number > 0 and factor > 0 and number > float(UNBOUNDED) / factor:
        return UNBOUNDED
    product = math.ceil(number * factor)
    return UNBOUNDED if product >= 2**64 else product


def fixed(value: int) -> Range:
    """Return a range of a single value."""
    return Range(value, value)


ANY_SIZE = Range(0, UNBOUNDED)
ONE = fixed(1)


class AstNode(NamedTuple):
    """An argument as estimators see it: `size` is None if it is unknown, and then assumed to be `assumed`."""

    expr: Expr
    type: Type
    size: Range | None
    assumed: Range = ANY_SIZE

    @property
    def any_size(self) -> Range:
        """The size, or the assumed size."""
        return self.assumed if self.size is None else self.size


class CallEstimate(NamedTuple):
    """The cost of a call without its arguments, and the size of its result if that is known."""

    cost: Range
    size: Range | None = None


CallEstimator = Callable[[AstNode | None, Sequence[AstNode]], CallEstimate | None]
"""Function that estimates a call from receiver and arguments. None means the standard estimate."""


class Estimates(NamedTuple):
    """Declared estimators of calls by overload id, and the cost of `==` by type name."""

    calls: Mapping[str, CallEstimator]
    equality: Mapping[str, Range]

    def of_call(self, overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
        """Return the estimate of a call, or None if the call is estimated as in standard CEL."""
        estimator = self.calls.get(overload)
        if estimator is not None:
            return estimator(target, args)
        if overload != "equals" or len(args) != 2 or args[0].type.name != args[1].type.name:
            return None
        cost = self.equality.get(args[0].type.name)
        return None if cost is None else CallEstimate(cost)


def pattern_estimate(text: Range, pattern: Range) -> Range:
    """Return the cost of matching a regular expression with a text."""
    return text.plus(ONE).scaled(STRING_FACTOR).times(pattern.scaled(REGEX_FACTOR))
