"""Values of `Object{...}` and `JSONPatch{...}` (apiserver `pkg/cel/mutation`, `pkg/cel/mutation/dynamic`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replay.cel.value.concat import ConcatList
from replay.cel.value.equality import value_equal
from replay.cel.value.text import display
from replay.cel.value.values import EvalError, ObjectValue, OptionalValue, TypeValue, Value

_TEXT_FIELDS: Final = ("op", "path", "from")
PATCH_FIELDS: Final = (*_TEXT_FIELDS, "value")
"""The fields of a `JSONPatch`; all but the last are texts."""


class DynamicObject(ObjectValue, frozen=True):
    """`Object{...}` or `Object.spec{...}`: any field, and any value in it."""

    def field(self, name: Value) -> Value:
        """A field as it is read back: made a Go value, and that a CEL value (`dynamic.convertField`)."""
        return _field_content(self.fields.get(name))


class PatchValue(ObjectValue, frozen=True):
    """`JSONPatch{...}`."""

    def part(self, key: Value, *, testing: bool) -> tuple[Value, bool]:
        """A field; unset texts are empty (apiserver `JSONPatchVal.Get`)."""
        if key not in PATCH_FIELDS:
            text = "unsupported field" if testing else "unsupported indexer"
            return EvalError(f"{text}: {display(key)}"), False
        if testing and not self.fields.get(key, key == "value" and key in self.fields):
            return None, False
        return self.fields.get(key, None if key == "value" else ""), True

    def equal_by(self, other: ObjectValue, equal: Callable[[Value, Value], Value]) -> Value:
        """The same texts, and values that CEL takes for equal."""
        mine, others = self.fields, other.fields
        if any(mine.get(name, "") != others.get(name, "") for name in _TEXT_FIELDS):
            return False
        if "value" not in mine or "value" not in others:
            return ("value" in mine) == ("value" in others)
        left, right = mine["value"], others["value"]
        # Null does not go before the left operand here.
        return value_equal(left, right) if right is None else equal(left, right)


def _field_content(value: Value) -> Value:
    if isinstance(value, list | ConcatList):
        return [_content(element) for element in value]
    if isinstance(value, dict):
        return {key: _content(element) for key, element in value.items()}
    return _content(value)


def _content(value: Value) -> Value:
    """Return a message as plain value: messages become maps, types their names, optionals their value; nested lists stay."""
    if isinstance(value, OptionalValue):
        return _content(value.value) if value.has_value else None
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, DynamicObject):
        return {name: _field_content(field) for name, field in value.fields.items()}
    return value
