"""What one evaluation may take here where the server's cost limit does not stop it: beyond, its outcome is undetermined.

The server charges for calls once they are done, and nothing for some that make a lot out of little (`replace`, `format`, lists of
lists of lists). There it takes its time and memory, or dies. Here such a call is given up before it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from msgspec import Struct

from replay.cel.value.types import DYN
from replay.cel.value.values import OpaqueValue

MAX_ELEMENTS: Final = 1_000_000
"""The most elements that a list is walked through or built with in one call."""

MAX_TEXT: Final = 50_000_000
"""The most characters or bytes of a text that is built."""

MAX_STEPS: Final = 1_000_000
"""The most values that are visited where a value is compared, printed or handed on as a tree."""

T = TypeVar("T")


class UndeterminedValue(Struct, frozen=True):
    """Stands among the `missing` of an `Unknown` for what is not missing in the input; `reason` can end "undetermined: ..."."""

    reason: str
    path = "the evaluation"
    """Placeholder for the path of a missing value."""

    def __str__(self) -> str:
        """The reason."""
        return self.reason


class UndeterminedError(Exception):
    """What the server answers is out of reach here; nothing absorbs it, and the whole evaluation is unknown.

    `str()` is the reason. `size` is that of the result, as far as it is known: the server charges for it, and may cancel the
    evaluation then, which is an answer.
    """

    def __init__(self, reason: str, size: int = 0) -> None:
        """See the class."""
        super().__init__(reason)
        self.size = size
        self.charged = False


class PlaceholderValue(OpaqueValue):
    """Stands for the result of a call that was not made, if only its cost is needed."""

    __slots__ = ("size",)
    cel_type = DYN

    def __init__(self, size: int) -> None:
        """Elements or characters."""
        self.size = size


def check_elements(count: int) -> None:
    """Raise `UndeterminedError` for a list that is too long to be walked through or built."""
    if count > MAX_ELEMENTS:
        raise UndeterminedError(f"it walks through a list of {count} elements, which is more than is done here", count)


def check_text(length: int) -> None:
    """Raise `UndeterminedError` for a text that is too long to be built."""
    if length > MAX_TEXT:
        raise UndeterminedError(f"it makes a text of {length} characters, which is more than is done here", length)


class Steps:
    """How many values may still be visited; values that share their parts can be far larger as trees than they are in memory."""

    __slots__ = ("left",)

    def __init__(self, left: int = MAX_STEPS) -> None:
        """Start with all of them."""
        self.left = left

    def take(self, count: int) -> None:
        """Consume steps; raises `UndeterminedError` if none are left."""
        self.left -= count
        if self.left < 0:
            raise UndeterminedError("it visits more values than is done here")

    def each(self, values: Iterable[T]) -> Iterator[T]:
        """Yield the values, each of which is one step."""
        for value in values:
            self.take(1)
            yield value


def joined(separator: str, parts: Iterable[str]) -> str:
    """`separator.join(parts)`; raises `UndeterminedError` before the text is too long."""
    length = 0
    texts: list[str] = []
    for part in parts:
        length += len(part) + len(separator)
        check_text(length)
        texts.append(part)
    return separator.join(texts)
