"""Lists joined without copying them (cel-go `concatList`): sixty doublings are a list of 2^60 elements in sixty objects.

After an evaluation, values are without such parts, and small enough to walk as a tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from replay.cel.value.bounds import Steps, UndeterminedError, check_elements
from replay.cel.value.values import ObjectValue, OptionalValue, Value

_LONGEST: Final = 2**63 - 1


class ConcatList:
    """`left + right`, neither of them empty; both are lists of any kind and never change."""

    __slots__ = ("_size", "left", "right")

    def __init__(self, left: Any, right: Any) -> None:
        """Raises `UndeterminedError` for more elements than can be counted, which the server does not survive."""
        size = len(left) + len(right)
        if size > _LONGEST:
            raise UndeterminedError("it makes a list of more than 2^63 elements")
        self._size = size
        self.left = left
        self.right = right

    def __len__(self) -> int:
        """The number of elements."""
        return self._size

    def __getitem__(self, index: int) -> Any:
        """An element by its index from 0."""
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
        """Yield the lists that it consists of, in order, with repetitions."""
        pending: list[Any] = [self]
        while pending:
            part = pending.pop()
            if type(part) is ConcatList:
                pending += (part.right, part.left)
            else:
                yield part

    def all(self) -> Iterator[Any]:
        """The elements, however many there are: for folds, whose rounds are charged one by one."""
        for part in self.lists():
            yield from part

    def __iter__(self) -> Iterator[Any]:
        """The elements; raises `UndeterminedError` where they are too many to walk through in one call."""
        check_elements(self._size)
        return self.all()


MAX_DEPTH: Final = 2_000
"""The deepest nesting of a value that is handed on; the server's encoders end at 10,000."""

_CONTAINERS = frozenset({list, tuple, dict, ConcatList, OptionalValue})


def materialized(value: Value) -> Value:
    """The value, with joined lists made plain ones; raises `UndeterminedError` where it is too large or too deep."""
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
