"""Change of an object along a mutator's location (`gatekeeper/pkg/mutation/mutators/core/mutation_function.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replay.gatekeeper.constraint import NotKnownError
from replay.gatekeeper.mutation.location import FieldNode, ListNode, Location, PathTests
from replay.json import JSON
from replay.kube.attributes import Missing

Setter = Callable[[dict[str, JSON], str], None]
"""Function that sets a field of an object."""


class MutationError(Exception):
    """Mutation that fails. `str()` is Gatekeeper's message."""


class LocationWalk:
    """Location, tests and change of a mutator. `element` makes a new list element, or is None if that is impossible."""

    def __init__(
        self, location: Location, tests: PathTests, set_field: Setter, element: Callable[[], JSON] | None
    ) -> None:
        """Keep what does not depend on the object."""
        self.location = location
        self.tests = tests
        self.set_field = set_field
        self.element = element

    def mutate(self, value: dict[str, JSON]) -> bool:
        """Change an object in place. Return whether the mutator was applied."""
        return self._mutate(value, 0)[0]

    def _mutate(self, current: Any, depth: int) -> tuple[bool, Any]:
        if isinstance(current, Missing):
            raise NotKnownError(current.reason)
        node = self.location[depth]
        return self._field(current, node, depth) if isinstance(node, FieldNode) else self._list(current, node, depth)

    def _field(self, current: Any, node: FieldNode, depth: int) -> tuple[bool, Any]:
        if not isinstance(current, dict):
            raise MutationError(
                f"mismatch between path entry (type: object) and received object (type: {go_type(current)}). Path: {node}"
            )
        exists = node.name in current
        if isinstance(current.get(node.name), Missing):
            raise NotKnownError(current[node.name].reason)
        if not (self.tests.allows_existing(depth) if exists else self.tests.allows_missing(depth)):
            return False, None
        if len(self.location) - 1 == depth:
            self.set_field(current, node.name)
            return True, current
        following = current[node.name] if exists else self._created(depth)
        mutated, following = self._mutate(following, depth + 1)
        if mutated:
            current[node.name] = following
        return mutated, current

    def _list(self, current: Any, node: ListNode, depth: int) -> tuple[bool, Any]:
        if not isinstance(current, list):
            glob = "true" if node.value is None else "false"
            shown = "<nil>" if node.value is None else node.value
            raise MutationError(
                f"mismatch between path entry (type: List) and received object (type: {go_type(current)}). Path: &{{KeyField:{node.key} KeyValue:{shown} Glob:{glob}}}"
            )
        if len(self.location) - 1 == depth:
            if self.element is None:
                raise MutationError("mutator does not understand keyed lists")
            return self._set_element(list(current), node, depth)
        if node.value is None and not self.tests.allows_existing(depth):
            return False, None
        items, mutated, is_found = list(current), False, False
        for item in current:
            if node.value is not None and not (
                isinstance(item, dict) and node.key in item and _same(item[node.key], node.value)
            ):
                continue
            if not self.tests.allows_existing(depth):
                return False, None
            mutated |= self._mutate(item, depth + 1)[0]
            is_found = True
        if node.value is not None and not is_found:
            if not self.tests.allows_missing(depth):
                return False, None
            created = self._created(depth)
            items.append(created)
            mutated |= self._mutate(created, depth + 1)[0]
        return mutated, items

    def _set_element(self, items: list[JSON], node: ListNode, depth: int) -> tuple[bool, Any]:
        """Replace or add an element of a keyed list."""
        assert self.element is not None
        if node.value is None:
            raise MutationError("last path entry can not be globbed")
        new = self.element()
        for place, item in enumerate(items):
            if not isinstance(item, dict):
                raise MutationError(f"cast error, unable to case {go_type(item)} to map[string]interface{{}}")
            if node.key in item and _same(item[node.key], node.value):
                if node.key not in new or not _same(new[node.key], node.value):
                    raise MutationError("key value of replaced object must not change")
                if not self.tests.allows_existing(depth):
                    return False, None
                items[place] = new
                return True, items
        if not self.tests.allows_missing(depth):
            return False, None
        return True, [*items, new]

    def _created(self, depth: int) -> JSON:
        """Return the node to create on the way to the location."""
        node, following = self.location[depth], self.location[depth + 1]
        created: Any = {} if isinstance(following, FieldNode) else []
        if isinstance(node, ListNode):
            if not isinstance(created, dict):
                raise MutationError(f"two consecutive list path entries not allowed: {node} {following}")
            created[node.key] = node.value
        return created


def _same(one: JSON, other: JSON) -> bool:
    if isinstance(one, Missing):
        raise NotKnownError(one.reason)
    return type(one) is type(other) and bool(one == other)


def go_type(value: JSON) -> str:
    """Return the type of a value as `%T` prints it."""
    names = {
        dict: "map[string]interface {}",
        list: "[]interface {}",
        str: "string",
        bool: "bool",
        int: "int64",
        float: "float64",
    }
    return names.get(type(value), "<nil>")
