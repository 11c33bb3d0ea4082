"""A single selection: a field, key or index of a value (cel-go `refQualify`)."""

from __future__ import annotations

from replay.cel.value.equality import find, is_list, is_map
from replay.cel.value.number import lossless_int
from replay.cel.value.partial import PartialValue
from replay.cel.value.text import display, general_double, go_type_name, type_name
from replay.cel.value.typed import TypedList
from replay.cel.value.values import EvalError, MessageValue, ObjectValue, Uint, Unknown, Value

Present = tuple[Value, bool]
"""A value and whether it exists. An `EvalError` as the value means that the test itself failed."""


class ElementError(EvalError):
    """An error in place of a list element: the path continues and is charged before the error takes effect."""


def select(value: Value, key: Value) -> Value:
    """Return `value.key` or `value[key]`."""
    part, present = lookup(value, key, testing=False)
    return part if present or isinstance(part, EvalError) else missing(value, key)


def missing(value: Value, key: Value) -> EvalError:
    """Return the error for a key or index that does not exist."""
    if is_list(value.value if type(value) is PartialValue else value):
        return EvalError(f"index out of bounds: {display(key)}")
    return EvalError(f"no such key: {display(key)}")


def lookup(value: Value, key: Value, *, testing: bool) -> Present:  # noqa: PLR0911 - one return a kind
    """Return `(part, present)`. The part is an `EvalError` if the key does not fit (cel-go `refQualify`)."""
    kind = type(value)
    if kind is PartialValue:
        part = value.parts.get(key) if isinstance(key, str | int) else None
        return (part, True) if isinstance(part, Unknown) else lookup(value.value, key, testing=testing)
    if kind is dict or is_map(value):
        is_present, part = find(value, key)
        if isinstance(part, EvalError):
            return part, False
        return part, is_present
    if is_list(value):
        return _index(value, key)
    if isinstance(value, Unknown):
        return value, True
    if isinstance(value, EvalError):
        return EvalError(value.message), False
    if isinstance(value, ObjectValue):
        return value.part(key, testing=testing)
    if isinstance(value, MessageValue):
        return value.field(key), False
    return None, False


def _index(value: Value, key: Value) -> Present:
    kind = type(key)
    index: int | None
    if kind is int:
        index = key
    elif kind is float:
        index = lossless_int(key)
    elif kind is Uint:
        index = int(key) if key < 2**63 else None
    else:
        return EvalError(f"unsupported index type '{type_name(key)}' in list"), False
    if index is None:
        text = general_double(key) if kind is float else display(key)
        return EvalError(f"unsupported index value {text} in list"), False
    if not 0 <= index < len(value):
        return None, False
    if type(value) is TypedList and kind is not int:
        return ElementError(f"unsupported index type: {go_type_name(key)}"), True
    return value[index], True
