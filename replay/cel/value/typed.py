"""Objects of built-in kinds: the API server shows them to CEL by reflection over Go structs, not as plain maps.

Content is the same as in JSON, but some operations differ (apiserver `pkg/cel/common/valuesschemalesstyped.go`):
comparing a list or map with anything else is `no such overload` instead of false, only int indexes a list, only
strings are keys. `TypedMap` and `TypedList` are views of decoded JSON that keep this difference; their children are
wrapped when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class TypedMap:
    """A struct or Go map of a built-in kind, over its decoded JSON."""

    __slots__ = ("value",)

    def __init__(self, value: dict[str, Any]) -> None:
        """Wrap without copying."""
        self.value = value

    def __len__(self) -> int:
        """The number of fields that are set."""
        return len(self.value)


class TypedList:
    """A Go slice of a built-in kind, over its decoded JSON."""

    __slots__ = ("value",)

    def __init__(self, value: list[Any]) -> None:
        """Wrap without copying."""
        self.value = value

    def __len__(self) -> int:
        """The number of elements."""
        return len(self.value)

    def __getitem__(self, index: int) -> Any:
        """An element, wrapped."""
        return typed(self.value[index])

    def __iter__(self) -> Iterator[Any]:
        """The elements, wrapped."""
        return map(typed, self.value)


def typed(value: Any) -> Any:
    """A decoded JSON value as seen inside an object of a built-in kind."""
    kind = type(value)
    if kind is dict:
        return TypedMap(value)
    return TypedList(value) if kind is list else value


def untyped(value: Any) -> Any:
    """The decoded JSON value behind a view; anything else is returned as it is."""
    return value.value if type(value) is TypedMap or type(value) is TypedList else value
