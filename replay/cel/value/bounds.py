"""The time and memory that one evaluation may take where the server's cost limit does not bound them.

Beyond these bounds the outcome is undetermined. The server charges for calls after they are done, and charges nothing
for some that make a lot out of little (`replace`, `format`, lists of lists of lists). It then takes its time and
memory, or dies. Here such a call is given up before it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from msgspec import Struct

from replay.cel.value.types import DYN
from replay.cel.value.values import OpaqueValue

MAX_ELEMENTS: Final = 1_000_000
"""The longest list that one call walks through or builds."""

MAX_TEXT: Final = 50_000_000
"""The longest text that is built, in characters or bytes."""

MAX_STEPS: Final = 1_000_000
"""The most values that are visited to compare, print or pass on a value as a tree."""

T = TypeVar("T")


class UndeterminedValue(Struct, frozen=True):
    """A reason among the `missing` of an `Unknown` that is no missing input. `reason` can end "undetermined: ..."."""

    reason: str
    path = "the evaluation"
    """Placeholder for the path of a missing value."""

    def __str__(self) -> str:
        """Return the reason."""
        return self.reason


class UndeterminedError(Exception):
    """The server's answer cannot be determined here. Nothing absorbs this error: the whole evaluation is unknown.

    `str()` is the reason. `size` is the size of the result, as far as it is known: the server charges for it and may
    then cancel the evaluation, which is a determined answer.
    """

    def __init__(self, reason: str, size: int = 0) -> None:
        """`reason` and `size` are described at the class."""
        super().__init__(reason)
        self.size = size
        self.charged = False


class PlaceholderValue(OpaqueValue):
    """Stands for the result of a call that was not made, if only its cost is needed."""

    __slots__ = ("size",)
    cel_type = DYN

    def __init__(self, size: int) -> None:
        """`size` is the number of elements or characters."""
        self.size = size


def check_elements(count: int) -> None:
    """Raise `UndeterminedError` if a list is too long to be walked through or built."""
    if count > MAX_ELEMENTS:
        raise UndeterminedError(f"it reads a list of {count} elements, which is more than replay evaluates", count)


def check_text(length: int) -> None:
    """Raise `UndeterminedError` if the resulting string is longer than replay builds."""
    if length > MAX_TEXT:
        raise UndeterminedError(
            f"it builds a string of {length} characters, which is more than replay evaluates", length
        )


class Steps:
    """Counts how many values may still be visited.

    Values that share parts can be far larger as trees than they are in memory.
    """

    __slots__ = ("left",)

    def __init__(self, left: int = MAX_STEPS) -> None:
        """`left` is the number of steps to start with."""
        self.left = left

    def take(self, count: int) -> None:
        """Use up steps. Raises `UndeterminedError` if none are left."""
        self.left -= count
        if self.left < 0:
            raise UndeterminedError("it reads more values than replay evaluates")

    def each(self, values: Iterable[T]) -> Iterator[T]:
        """Yield the values, using up one step for each."""
        for value in values:
            self.take(1)
            yield value


def joined(separator: str, parts: Iterable[str]) -> str:
    """Return `separator.join(parts)`. Raises `UndeterminedError` before the text gets too long."""
    length = 0
    texts: list[str] = []
    for part in parts:
        length += len(part) + len(separator)
        check_text(length)
        texts.append(part)
    return separator.join(texts)
