"""Cost estimates that libraries declare for calls (cel-go `checker.CallEstimate`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from replay.cel.ast.tree import Expr
from replay.cel.declare.cost import REGEX_FACTOR, STRING_FACTOR
from replay.cel.value.types import Type

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
