"""The steps that build lists, maps and new objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from replay.cel.declare.cost import LIST_COST, MAP_COST, STRUCT_COST, CostTracker
from replay.cel.strict.frame import Frame
from replay.cel.strict.step import Step
from replay.cel.value.partial import is_stopping, partial_list, partial_map, stopping, unresolved
from replay.cel.value.text import display
from replay.cel.value.values import EvalError, OptionalValue, PanicError, Unknown, Value, map_key


class ListStep:
    """`[a, ?b]`."""

    __slots__ = ("_optional", "elements", "id")

    def __init__(self, node_id: int, elements: Sequence[Step], optional: frozenset[int]) -> None:
        """`optional` are the positions marked with `?`."""
        self.id = node_id
        self.elements = tuple(elements)
        self._optional = optional

    def exec(self, frame: Frame) -> Value:
        """The list, or the first error or unknown."""
        values: list[Value] = []
        for index, element in enumerate(self.elements):
            value = element.exec(frame)
            if is_stopping(value, optional=index in self._optional):
                return stopping(value)
            if index in self._optional:
                if not isinstance(value, OptionalValue):
                    return EvalError(
                        f"cannot initialize optional list element from non-optional value {display(value)}"
                    )
                if not value.has_value:
                    continue
                value = value.value
            values.append(value)
        return partial_list(values)

    def charge(self, tracker: CostTracker, value: Value) -> None:  # noqa: ARG002
        """The price of a new list."""
        tracker.drop_args([element.id for element in self.elements])
        tracker.cost += LIST_COST


def _entry_error(name: str, value: Value) -> EvalError:
    return EvalError(f"cannot initialize optional entry '{name}' from non-optional value {display(value)}")


class MapStep:
    """`{k: v, ?o: w}`."""

    __slots__ = ("_optional", "entries", "id")

    def __init__(self, node_id: int, entries: Sequence[tuple[Step, Step]], optional: frozenset[int]) -> None:
        """`optional` are the positions marked with `?`."""
        self.id = node_id
        self.entries = tuple(entries)
        self._optional = optional

    def exec(self, frame: Frame) -> Value:
        """The map; a later entry replaces an earlier one of the same key."""
        values: dict[Value, Value] = {}
        for index, (key_step, value_step) in enumerate(self.entries):
            key = key_step.exec(frame)
            if isinstance(key, EvalError | Unknown):
                return stopping(key)
            value = value_step.exec(frame)
            if is_stopping(value, optional=index in self._optional):
                return stopping(value)
            if isinstance(key, bytes):
                raise PanicError("runtime error: hash of unhashable type types.Bytes")
            if index in self._optional:
                if not isinstance(value, OptionalValue):
                    return _entry_error(display(key), value)
                if not value.has_value:
                    values.pop(map_key(key), None)
                    continue
                value = value.value
            values[map_key(key)] = value
        return partial_map(values)

    def charge(self, tracker: CostTracker, value: Value) -> None:  # noqa: ARG002
        """The price of a new map."""
        tracker.drop_args([step.id for entry in self.entries for step in entry])
        tracker.cost += MAP_COST


class ObjectStep:
    """`TypeName{field: value}`."""

    __slots__ = ("_build", "_fields", "_optional", "_type_name", "id")

    def __init__(
        self,
        node_id: int,
        type_name: str,
        fields: Sequence[tuple[str, Step]],
        optional: frozenset[int],
        build: Callable[[str, Mapping[str, Value]], Value],
    ) -> None:
        """`build` makes the value of a type from its fields, or an `EvalError`."""
        self.id = node_id
        self._type_name = type_name
        self._fields = tuple(fields)
        self._optional = optional
        self._build = build

    def exec(self, frame: Frame) -> Value:
        """The object, or the first error or unknown."""
        values: dict[str, Value] = {}
        for index, (name, step) in enumerate(self._fields):
            value = step.exec(frame)
            if isinstance(value, EvalError) or unresolved(value) is not None:
                return stopping(value)
            if index in self._optional:
                if not isinstance(value, OptionalValue):
                    return _entry_error(name, value)
                if not value.has_value:
                    values.pop(name, None)
                    continue
                value = value.value
            values[name] = value
        return self._build(self._type_name, values)

    def charge(self, tracker: CostTracker, value: Value) -> None:  # noqa: ARG002
        """The price of a new object."""
        tracker.drop_args([step.id for _, step in self._fields])
        tracker.cost += STRUCT_COST
