"""Maps with object identity as the key, for values that are equal to others or not hashable."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct, field

Key = TypeVar("Key")
Value = TypeVar("Value")


class IdentityMap(Generic[Key, Value]):
    """Map with objects as keys, by identity.

    INVARIANT: it keeps its keys alive, because a new object could get the identity of a freed one.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[Key, Value]] = ()) -> None:
        """Add entries. A later entry for the same object wins."""
        self._entries: dict[int, tuple[Key, Value]] = {}
        for key, value in entries:
            self[key] = value

    def __getitem__(self, key: Key) -> Value:
        """Return the value of an object. Raises KeyError."""
        return self._entries[id(key)][1]

    def __setitem__(self, key: Key, value: Value) -> None:
        """Set the value of an object."""
        self._entries[id(key)] = key, value

    def __contains__(self, key: object) -> bool:
        """Return whether an object has a value."""
        return id(key) in self._entries

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._entries)

    def values(self) -> Iterator[Value]:
        """Return all values, in the order in which their objects were added."""
        return (value for _, value in self._entries.values())

    def items(self) -> Iterable[tuple[Key, Value]]:
        """Return all objects with their values, in the order in which they were added."""
        return self._entries.values()

    def get(self, key: Key) -> Value | None:
        """Return the value of an object, or None."""
        entry = self._entries.get(id(key))
        return None if entry is None else entry[1]


class IdentityMemo(Struct, Generic[Value], eq=False):
    """Memo with several objects as key, by identity, and other values that the result depends on. It keeps its keys alive."""

    _entries: dict[Hashable, tuple[tuple[object, ...], Value]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._entries)

    def get(self, objects: tuple[object, ...], rest: Hashable = None) -> Value | None:
        """Return the value of a key, or None."""
        entry = self._entries.get((*map(id, objects), rest))
        return None if entry is None else entry[1]

    def put(self, objects: tuple[object, ...], value: Value, rest: Hashable = None) -> Value:
        """Store a value and return it."""
        self._entries[(*map(id, objects), rest)] = objects, value
        return value
