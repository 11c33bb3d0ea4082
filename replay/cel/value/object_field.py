"""What reading a field of a built `Object{...}` gives (apiserver `pkg/cel/mutation/dynamic`)."""

from __future__ import annotations

from replay.cel.value.concat import ConcatList
from replay.cel.value.values import ObjectValue, OptionalValue, TypeValue, Value


def field_content(value: Value) -> Value:
    """A field as it is read back: the server turns it into a Go value and that into a CEL value (`dynamic.convertField`)."""
    if isinstance(value, list | ConcatList):
        return [_content(element) for element in value]
    if isinstance(value, dict):
        return {key: _content(element) for key, element in value.items()}
    return _content(value)


def _content(value: Value) -> Value:
    """What is inside: messages become maps, types their names, optionals their value; lists in lists stay as they are."""
    if isinstance(value, OptionalValue):
        return _content(value.value) if value.has_value else None
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, ObjectValue) and value.type_name != "JSONPatch":
        return {name: field_content(field) for name, field in value.fields.items()}
    return value
