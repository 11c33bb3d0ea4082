"""Schemas that mutators imply, and conflicts between them (`gatekeeper/pkg/mutation/schema`)."""

from __future__ import annotations

from collections.abc import Sequence

from replay.gatekeeper.mutation.location import FieldNode, Location, Node

UNKNOWN, SET, STRING = "Unknown", "Set", "String"
_LIST, _OBJECT = "List", "Object"

Binding = tuple[str, str, str, str]
"""Group, version, kind and operation."""


class _SchemaNode:
    """Node of the implied schema."""

    def __init__(self) -> None:
        self.referenced: set[str] = set()
        self.children: dict[str, dict[str, _SchemaNode]] = {}
        self.terminating: set[str] = set()

    def add(self, name: str, path: Sequence[Node], terminal: str, *, terminates: bool) -> set[str]:
        """Add a path. Return the mutators that conflict on it."""
        self.referenced.add(name)
        if not path:
            if terminates:
                self.terminating.add(name)
            return set()
        node = path[0]
        key = node.name if isinstance(node, FieldNode) else node.key
        kind = (_OBJECT if isinstance(path[1], FieldNode) else _LIST) if len(path) > 1 else terminal
        child = self.children.setdefault(key, {}).setdefault(kind, _SchemaNode())
        return child.add(name, path[1:], terminal, terminates=terminates) | self._conflicts(key)

    def _conflicts(self, key: str) -> set[str]:
        children = self.children[key]
        known = len(children) - (UNKNOWN in children)
        found: set[str] = set()
        for kind, child in children.items():
            if kind != UNKNOWN and (known > 1 or (kind == _LIST and len(child.children) > 1)):
                found |= child.referenced
        if not any(child.terminating for child in children.values()) or not any(
            child.children for child in children.values()
        ):
            return found
        for child in children.values():
            found |= child.terminating
            for below in child.children.values():
                for grandchild in below.values():
                    found |= grandchild.referenced
        return found


class ImpliedSchemas:
    """Implied schemas of all kinds. Mutators are added one by one."""

    def __init__(self) -> None:
        """Start without mutators."""
        self._schemas: dict[Binding, _SchemaNode] = {}
        self.conflicting: set[str] = set()

    def add(
        self, name: str, bindings: Sequence[Binding], location: Location, terminal: str, *, terminates: bool
    ) -> set[str]:
        """Add a mutator. Return the mutators that now conflict, which are no longer applied."""
        found: set[str] = set()
        for binding in bindings:
            found |= self._schemas.setdefault(binding, _SchemaNode()).add(
                name, location, terminal, terminates=terminates
            )
        self.conflicting |= found
        return found
