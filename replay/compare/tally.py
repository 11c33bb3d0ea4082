"""Counts of parts of a log, which add up to those of the whole log. Every question folds its parts so."""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import Any, Self

from msgspec import Struct


class Tally(Struct):
    """Counts of one part of a log, or of the whole log. What adds up otherwise than below has an `add` of its own."""

    def add(self, other: Self) -> None:
        """Add the counts of another part: numbers, lists, the counts of equal keys, and all members of sets."""
        for name in self.__struct_fields__:
            setattr(self, name, _sum(getattr(self, name), getattr(other, name)))


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, Tally):
        one.add(other)
    elif isinstance(one, Counter):
        one.update(other)
    elif isinstance(one, set):
        one |= other
    elif isinstance(one, dict):
        for key, value in other.items():
            one[key] = _sum(one[key], value) if key in one else copy(value)
    else:
        one += other
    return one
