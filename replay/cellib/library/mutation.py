"""The messages of mutating policies, `Object{...}` and `JSONPatch{...}`, and `jsonpatch.escapeKey`.

See apiserver `pkg/cel/mutation`, `pkg/cel/mutation/dynamic` and `pkg/cel/library/jsonpatch.go`, and RFC 6901, section
3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from replay.cel.declare.library import Library, Messages, overloaded
from replay.cel.value.concat import ConcatList
from replay.cel.value.equality import value_equal
from replay.cel.value.text import display
from replay.cel.value.timestamp import Duration, Timestamp
from replay.cel.value.types import DYN, STRING, UNSPECIFIED, Type
from replay.cel.value.values import EvalError, ObjectValue, OptionalValue, TypeValue, Uint, Value
from replay.cellib.library.cost import argument_estimate, first_traversal

_ESCAPES = str.maketrans({"/": "~1", "~": "~0"})


def escape_key(key: str) -> str:
    """Return a key as one segment of a JSON pointer."""
    # Both characters at once, so that the `~` of an escape is not escaped again.
    return key.translate(_ESCAPES)


_JSONPATCH = Library(
    name="kubernetes.jsonpatch",
    functions=(
        overloaded(
            "jsonpatch.escapeKey",
            ("string_jsonpatch_escapeKey_string", (STRING,), STRING, escape_key),
            cost=first_traversal,
            estimate=argument_estimate(sized=True),
        ),
    ),
)
"""`jsonpatch.escapeKey`."""


_TEXT_FIELDS: Final = ("op", "path", "from")
PATCH_FIELDS: Final = (*_TEXT_FIELDS, "value")
"""The fields of a `JSONPatch`. All except the last are texts."""


class _DynamicObject(ObjectValue, frozen=True):
    """Value of `Object{...}` or `Object.spec{...}`: any fields with any values."""

    def field(self, name: Value) -> Value:
        """Return a field as it is read back: converted to Go and again to CEL (`dynamic.convertField`)."""
        return _field_content(self.fields.get(name))


class _PatchValue(ObjectValue, frozen=True):
    """Value of `JSONPatch{...}`."""

    def part(self, key: Value, *, testing: bool) -> tuple[Value, bool]:
        """Return a field, and whether it exists. Unset texts are empty (apiserver `JSONPatchVal.Get`)."""
        if key not in PATCH_FIELDS:
            text = "unsupported field" if testing else "unsupported indexer"
            return EvalError(f"{text}: {display(key)}"), False
        # A text is set if it is not empty. A value is set if it is there, whatever it is (`JSONPatchVal.IsSet`).
        if testing and not (key in self.fields if key == "value" else self.fields.get(key)):
            return None, False
        return self.fields.get(key, None if key == "value" else ""), True

    def equal_by(self, other: ObjectValue, equal: Callable[[Value, Value], Value]) -> Value:
        """Return whether the texts are equal, and the values are equal in CEL."""
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
    """Return a message as a plain value.

    Messages become maps, types become their names, and optionals become their values. Nested lists stay.
    """
    if isinstance(value, OptionalValue):
        return _content(value.value) if value.has_value else None
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, _DynamicObject):
        return {name: _field_content(field) for name, field in value.fields.items()}
    return value


_OBJECT = "Object"
_JSON_PATCH = "JSONPatch"

_GO_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int64",
    Uint: "uint64",
    float: "float64",
    bytes: "[]uint8",
    list: "[]ref.Val",
    ConcatList: "[]ref.Val",
    dict: "map[ref.Val]ref.Val",
    ObjectValue: "map[string]interface {}",
    type(None): "structpb.NullValue",
    Timestamp: "time.Time",
    Duration: "time.Duration",
}


class _Fields(Mapping[str, Type]):
    """The fields of a message: the known ones, and one type for all others."""

    def __init__(self, fields: Mapping[str, Type], other: Type) -> None:
        self._fields = fields
        self._other = other

    def __getitem__(self, name: str) -> Type:
        return self._fields.get(name, self._other)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


_OBJECT_FIELDS = _Fields({}, DYN)
_PATCH_FIELDS = _Fields({"op": STRING, "path": STRING, "from": STRING, "value": DYN}, UNSPECIFIED)


class _Messages(Mapping[str, Mapping[str, Type]]):
    """The fields of every message type, by name."""

    def __getitem__(self, name: str) -> Mapping[str, Type]:
        if name == _JSON_PATCH:
            return _PATCH_FIELDS
        if _is_object(name):
            return _OBJECT_FIELDS
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """Yield one name of each form, which shows where a name may contain dots."""
        return iter((_JSON_PATCH, _OBJECT, f"{_OBJECT}.metadata"))

    def __len__(self) -> int:
        return 3


def _is_object(type_name: str) -> bool:
    return type_name == _OBJECT or type_name.startswith(f"{_OBJECT}.")


def _is_message(type_name: str) -> bool:
    return type_name == _JSON_PATCH or _is_object(type_name)


def new_message(type_name: str, fields: Mapping[str, Value]) -> Value:
    """Return a message, or an `EvalError` for a patch with a field of the wrong type."""
    if type_name != _JSON_PATCH:
        return _DynamicObject(type_name, fields)
    for name, value in fields.items():
        if name not in PATCH_FIELDS:
            return EvalError(f"unexpected JSONPatchType field: {name}")
        if name != "value" and not isinstance(value, str):
            return EvalError(f"unexpected type {_go_type(value)} for JSONPatchType '{name}' field")
    return _PatchValue(type_name, fields)


def _go_type(value: Value) -> str:
    if isinstance(value, OptionalValue):
        return _go_type(value.value) if value.has_value else "<nil>"
    return next((_GO_TYPES[base] for base in type(value).__mro__ if base in _GO_TYPES), type(value).__name__)


MUTATION = Library(
    name="kubernetes.mutation",
    functions=_JSONPATCH.functions,
    struct_fields=_Messages(),
    messages=Messages(_is_message, new_message, _is_object),
)
"""`Object{...}`, `JSONPatch{...}` and `jsonpatch.escapeKey`."""
