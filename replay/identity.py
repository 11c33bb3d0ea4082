"""Maps by the identity of objects: for what is equal to others, or has no hash, and yet is to be told from them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class IdentityMap(Generic[Key, Value]):
    """Values by objects. INVARIANT: it keeps the objects, so that no other one can get the identity of one that is gone."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[Key, Value]] = ()) -> None:
        """Later entries of the same object win."""
        self._entries: dict[int, tuple[Key, Value]] = {id(key): (key, value) for key, value in entries}

    def __getitem__(self, key: Key) -> Value:
        """The value of an object; raises KeyError."""
        return self._entries[id(key)][1]

    def __setitem__(self, key: Key, value: Value) -> None:
        """Set the value of an object."""
        self._entries[id(key)] = key, value

    def __contains__(self, key: object) -> bool:
        """Whether an object has a value."""
        return id(key) in self._entries

    def __len__(self) -> int:
        """How many objects have a value."""
        return len(self._entries)

    def values(self) -> Iterator[Value]:
        """All values, in the order in which their objects came."""
        return (value for _, value in self._entries.values())

    def items(self) -> Iterable[tuple[Key, Value]]:
        """All objects and their values, in the order in which they came."""
        return self._entries.values()

    def get(self, key: Key) -> Value | None:
        """The value of an object, None if it has none."""
        entry = self._entries.get(id(key))
        return None if entry is None else entry[1]


class IdentityMemo(Generic[Value]):
    """Values by several objects, which are told apart by identity, and by what else they depend on. It keeps the objects."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        """Nothing is remembered."""
        self._entries: dict[Hashable, tuple[tuple[object, ...], Value]] = {}

    def __len__(self) -> int:
        """How many values there are."""
        return len(self._entries)

    def get(self, objects: tuple[object, ...], rest: Hashable = None) -> Value | None:
        """The value, None where there is none yet."""
        entry = self._entries.get((*map(id, objects), rest))
        return None if entry is None else entry[1]

    def put(self, objects: tuple[object, ...], value: Value, rest: Hashable = None) -> Value:
        """Remember a value, and give it back."""
        self._entries[(*map(id, objects), rest)] = objects, value
        return value
