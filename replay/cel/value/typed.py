"""Objects of built-in kinds: the API server shows them to CEL by reflection over Go structs, not as plain maps.

The content is the same as in JSON, but some operations differ (apiserver `pkg/cel/common/valuesschemalesstyped.go`):
comparing a list or map with anything else is `no such overload` instead of false, only an int indexes a list, and only
strings are keys. `TypedMap` and `TypedList` are views of decoded JSON that keep these differences. Their children are
wrapped when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class TypedMap:
    """A view of a struct or Go map of a built-in kind, over its decoded JSON."""

    __slots__ = ("value",)

    def __init__(self, value: dict[str, Any]) -> None:
        """Wrap the value without copying it."""
        self.value = value

    def __len__(self) -> int:
        """Return the number of fields that are set."""
        return len(self.value)


class TypedList:
    """A view of a Go slice of a built-in kind, over its decoded JSON."""

    __slots__ = ("value",)

    def __init__(self, value: list[Any]) -> None:
        """Wrap the value without copying it."""
        self.value = value

    def __len__(self) -> int:
        """Return the number of elements."""
        return len(self.value)

    def __getitem__(self, index: int) -> Any:
        """Return an element, wrapped."""
        return typed(self.value[index])

    def __iter__(self) -> Iterator[Any]:
        """Return the elements, wrapped."""
        return map(typed, self.value)


def typed(value: Any) -> Any:
    """Return a decoded JSON value as it appears inside an object of a built-in kind."""
    kind = type(value)
    if kind is dict:
        return TypedMap(value)
    return TypedList(value) if kind is list else value


def untyped(value: Any) -> Any:
    """Return the decoded JSON value behind a view. Anything else is returned unchanged."""
    return value.value if type(value) is TypedMap or type(value) is TypedList else value
