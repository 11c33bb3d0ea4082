"""Maps and lists with missing parts: known parts can be selected, the whole is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from replay.cel.value.equality import elements, is_list, is_map
from replay.cel.value.values import EvalError, OptionalValue, Unknown, UnknownParts, Value, map_key

MOST_PARTS = 1024
"""Maximum number of parts of a container built from partly known ones. A larger one is unknown as a whole."""


class PartialValue(UnknownParts, frozen=True, eq=False):
    """A container with unknown parts.

    `value` is the container itself, for keys that it does not have. `parts` has everything in it by key or index: the
    unknowns, the containers above them, and the known parts. `missing` names everything that is missing below.

    Steps that pass a value on (a selection, a conditional, a literal, a comprehension) pass it on unchanged. To all
    others it is unknown.
    """

    value: Value
    parts: Mapping[Value, Value]

    @property
    def unknown(self) -> UnknownParts:
        """The unknown that the whole container counts as."""
        return UnknownParts(self.missing)

    @property
    def has_known_size(self) -> bool:
        """Whether the keys or elements are known. A part that is itself unknown may not exist."""
        return all(type(part) is PartialValue or not isinstance(part, Unknown) for part in self.parts.values())

    @property
    def container(self) -> Value:
        """A list or map of the parts."""
        return dict(self.parts) if is_map(self.value) else list(self.parts.values())


def unresolved(value: Value) -> Unknown | None:
    """Return the unknown that a value is when looked at as a whole, or None if it is known."""
    if isinstance(value, OptionalValue):
        value = value.value
    if type(value) is PartialValue:
        return value.unknown
    return value if isinstance(value, Unknown) else None


def stopping(value: Value) -> Value:
    """Return the error or unknown that a step must return for such a value, even if it is partly known."""
    return unresolved(value) or value


def is_stopping(value: Value, *, optional: bool = False) -> bool:
    """Return whether no part of a value can be passed on: an error, an unknown, an optional of a partly known value.

    `optional`: the step opens the optional.
    """
    if isinstance(value, OptionalValue):
        return not optional and type(value.value) is PartialValue
    return isinstance(value, EvalError | Unknown) and type(value) is not PartialValue


def partial_list(elements: Sequence[Value]) -> Value:
    """Return a list of elements, some of them partly known."""
    return _partial(elements, dict(enumerate(elements)))


def partial_map(entries: Mapping[Value, Value]) -> Value:
    """Return a map of entries, some of them partly known."""
    return _partial(entries, entries)


def _partial(value: Value, parts: Mapping[Value, Value]) -> Value:
    unknown: Unknown | None = None
    for part in parts.values():
        if type(part) is PartialValue:
            unknown = part.unknown if unknown is None else unknown.merge(part.unknown)
    if unknown is None:
        return value
    return PartialValue(unknown.missing, value, parts) if len(parts) <= MOST_PARTS else UnknownParts(unknown.missing)


def hand_on(function: str, args: Sequence[Value]) -> Value:
    """Return the result of a call with an unknown or partly unknown argument.

    Functions that pass parts on do so. The result of all others is unknown.
    """
    if function in _HANDING:
        stop = next((value for value in args if is_stopping(value, optional=True)), None)
        result = _HANDING[function](*args) if stop is None else stop
        if result is not None:
            return result
    return next(stopping(value) for value in args if unresolved(value) is not None)


def _size(value: Value) -> Value:
    return len(value.parts) if type(value) is PartialValue and value.has_known_size else None


def _joined(left: Value, right: Value) -> Value:
    first, second = _elements(left), _elements(right)
    return None if first is None or second is None else partial_list([*first, *second])


def _elements(value: Value) -> Sequence[Value] | None:
    if type(value) is PartialValue:
        return list(value.parts.values()) if is_list(value.value) and value.has_known_size else None
    return list(elements(value)) if is_list(value) and len(value) <= MOST_PARTS else None


def _inserted(entries: Value, key: Value, value: Value) -> Value:
    known = entries.parts if type(entries) is PartialValue else entries
    return None if not isinstance(known, Mapping) or key in known else partial_map({**known, map_key(key): value})


_HANDING: Mapping[str, Callable[..., Value]] = {
    "dyn": lambda value: value,
    "optional.of": OptionalValue,
    "value": lambda optional: optional.value if isinstance(optional, OptionalValue) else None,
    "hasValue": lambda optional: True if isinstance(optional, OptionalValue) else None,
    "size": _size,
    "_+_": _joined,
    "cel.@mapInsert": _inserted,
}
"""Results for partly known arguments, by function. None means that the function reads the whole value."""
