"""Lists joined without copying (cel-go `concatList`): sixty doublings make a list of 2^60 elements in sixty objects.

After an evaluation, values no longer contain joined lists and are small enough to walk as a tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from replay.cel.value.bounds import Steps, UndeterminedError, check_elements
from replay.cel.value.values import ObjectValue, OptionalValue, Value

_LONGEST: Final = 2**63 - 1


class ConcatList:
    """`left + right`, neither of them empty. Both are lists of any kind and never change."""

    __slots__ = ("_size", "left", "right")

    def __init__(self, left: Any, right: Any) -> None:
        """Raises `UndeterminedError` if there are more elements than can be counted, which the server does not survive."""
        size = len(left) + len(right)
        if size > _LONGEST:
            raise UndeterminedError("it makes a list of more than 2^63 elements")
        self._size = size
        self.left = left
        self.right = right

    def __len__(self) -> int:
        """Return the number of elements."""
        return self._size

    def __getitem__(self, index: int) -> Any:
        """Return the element at an index counted from 0."""
        part: Any = self
        while type(part) is ConcatList:
            size = len(part.left)
            if index < size:
                part = part.left
            else:
                index -= size
                part = part.right
        return part[index]

    def lists(self) -> Iterator[Any]:
        """Yield the lists that this list is made of, in order and with repetitions."""
        pending: list[Any] = [self]
        while pending:
            part = pending.pop()
            if type(part) is ConcatList:
                pending += (part.right, part.left)
            else:
                yield part

    def all(self) -> Iterator[Any]:
        """Yield the elements, however many there are: for comprehensions, whose rounds are charged one by one."""
        for part in self.lists():
            yield from part

    def __iter__(self) -> Iterator[Any]:
        """Yield the elements. Raises `UndeterminedError` if they are too many to walk through in one call."""
        check_elements(self._size)
        return self.all()


MAX_DEPTH: Final = 2_000
"""Maximum nesting of a value that is passed on. The server's encoders stop at 10,000."""

_CONTAINERS = frozenset({list, tuple, dict, ConcatList, OptionalValue})


def materialized(value: Value) -> Value:
    """Return the value with plain lists in place of joined ones.

    Raises `UndeterminedError` if it is too large or too deep.
    """
    return _materialized(value, Steps(), MAX_DEPTH)


def _materialized(value: Value, steps: Steps, depth: int) -> Value:
    kind = type(value)
    if kind not in _CONTAINERS and not isinstance(value, ObjectValue):
        return value
    if not depth:
        raise UndeterminedError("its value is nested too deeply")
    if kind is OptionalValue:
        inner = _materialized(value.value, steps, depth - 1)
        return value if inner is value.value else OptionalValue(inner, value.has_value)
    if isinstance(value, ObjectValue):
        return kind(value.type_name, _materialized(dict(value.fields), steps, depth - 1))
    steps.take(len(value))
    if kind is dict:
        return {key: _materialized(item, steps, depth - 1) for key, item in value.items()}
    return [_materialized(item, steps, depth - 1) for item in value]
