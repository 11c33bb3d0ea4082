"""Events that a log shipper has flattened: `objectRef.resource` for nested fields, with or without a prefix.

Names of labels and annotations contain dots. The text after the names of these maps is one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

_ID = "auditID"
_OF_EVENT = ("stage", "verb", "level")
_MAPS = frozenset(
    {"annotations", "labels", "matchLabels", "nodeSelector", "data", "stringData", "binaryData", "limits", "requests"}
)
_MOST_ITEMS = 10_000
"""Maximum number of items in a list. A larger number in a name is not an index."""


def flat_prefix(value: Any) -> str | None:
    """Return the prefix of an event's field names in a flattened document, or None for other documents."""
    if not isinstance(value, dict) or not any("." in key for key in value):
        return None
    for key in value:
        prefix = key.removesuffix(_ID)
        if key.endswith(_ID) and all(prefix + name in value for name in _OF_EVENT):
            return prefix if prefix or any(name.startswith(("objectRef.", "user.")) for name in value) else None
    return None


def unflattened(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line with nested fields restored. Lines that are not flattened events stay unchanged."""
    for line in lines:
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            yield line
            continue
        prefix = flat_prefix(value)
        if prefix is None:
            yield line
            continue
        try:
            yield orjson.dumps(_nested(value, prefix)) + b"\n"
        except (RecursionError, TypeError):  # a name of more parts than there are levels
            yield line


def _nested(flat: dict[str, Any], prefix: str) -> Any:
    root: dict[str, Any] = {}
    for key, value in flat.items():
        if key.startswith(prefix):
            _put(root, _path(key.removeprefix(prefix)), value)
    return _with_lists(root)


def _path(key: str) -> list[str]:
    """Return the names of which a flattened name consists."""
    parts = key.split(".")
    for place, part in enumerate(parts[:-1]):
        if part in _MAPS:
            return [*parts[: place + 1], ".".join(parts[place + 1 :])]
    return parts


def _put(root: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        inner = root.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        root = inner
    root.setdefault(path[-1], value)


def _with_lists(value: Any) -> Any:
    """Return a value in which maps with the keys 0, 1, … are lists."""
    if not isinstance(value, dict):
        return value
    items = {name: _with_lists(each) for name, each in value.items()}
    if items and len(items) <= _MOST_ITEMS and items.keys() == {str(place) for place in range(len(items))}:
        return [items[str(place)] for place in range(len(items))]
    return items
