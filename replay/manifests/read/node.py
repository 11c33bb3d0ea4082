"""A decoded document with the position of each node, for all source formats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from replay.json import JSON


class Position(NamedTuple):
    """A line and a column of a file, both from 1."""

    line: int
    column: int


NOWHERE = Position(0, 0)
"""Position without a file, or of a file as a whole."""

START = Position(1, 1)


class Number(Struct, frozen=True):
    """A number as JSON text, as in `10`, `1e1`, `-0.5`."""

    text: str


class Scalar(Struct, frozen=True):
    """A null, a boolean, a number or a string."""

    position: Position
    value: bool | str | Number | None


class Sequence(Struct, frozen=True):
    """A list."""

    position: Position
    items: tuple[Node, ...]


class Entry(Struct, frozen=True):
    """One key of a mapping, with its value."""

    key: str
    position: Position
    value: Node


class Mapping(Struct, frozen=True):
    """A mapping in the order in which the server meets the keys: sorted for YAML, as written for JSON.

    A JSON document may repeat keys. `raw` is the text of an object in a JSON document that is decoded on its own: an
    item of a list, or the configuration of a plugin.
    """

    position: Position
    entries: tuple[Entry, ...]
    raw: bytes | None = None

    def get(self, key: str) -> Node | None:
        """Return the last value of `key`, or None."""
        return next((entry.value for entry in reversed(self.entries) if entry.key == key), None)


Node: TypeAlias = Scalar | Sequence | Mapping

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def position_of(node: Node, field_path: str) -> Position:
    """Return the position of `field_path` (`spec.rules[0].scope`), or of the nearest enclosing field."""
    position = node.position
    for match in _STEP.finditer(field_path):
        child = _child(node, match)
        if child is None:
            return position
        position, node = child
    return position


def _child(node: Node, step: re.Match[str]) -> tuple[Position, Node] | None:
    if step[1] is not None:
        if isinstance(node, Sequence) and int(step[1]) < len(node.items):
            item = node.items[int(step[1])]
            return item.position, item
        return None
    if isinstance(node, Mapping):
        # The last of repeated keys counts.
        for entry in reversed(node.entries):
            if entry.key == step[2]:
                scalar = isinstance(entry.value, Scalar)
                return entry.value.position if scalar else entry.position, entry.value
    return None


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes below it, without recursion."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, Mapping):
            pending.extend(entry.value for entry in current.entries)
        elif isinstance(current, Sequence):
            pending.extend(current.items)


def node_from_json(value: JSON) -> Node:
    """Return plain JSON as nodes without positions."""
    if isinstance(value, dict):
        entries = (Entry(str(key), NOWHERE, node_from_json(item)) for key, item in value.items())
        return Mapping(NOWHERE, tuple(entries))
    if isinstance(value, list):
        return Sequence(NOWHERE, tuple(node_from_json(item) for item in value))
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return Scalar(NOWHERE, value)
    return Scalar(NOWHERE, Number(str(value)))
