"""The messages of mutating policies: `Object{...}` and `JSONPatch{...}` (apiserver `pkg/cel/mutation`).

Object types are made as they are named: `Object`, and `Object.` with the path of fields from the root. Every field name
is allowed, and every field is dynamic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replay.cel.declare.library import Library, Messages
from replay.cel.value.concat import ConcatList
from replay.cel.value.timestamp import Duration, Timestamp
from replay.cel.value.types import DYN, STRING, UNSPECIFIED, Type
from replay.cel.value.values import EvalError, ObjectValue, OptionalValue, Uint, Value
from replay.cellib.library.jsonpatch import JSONPATCH
from replay.cellib.library.message_value import PATCH_FIELDS, DynamicObject, PatchValue

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
    """The fields of a message: those that are known, and one type for all others."""

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
    """The fields of every message type, by its name."""

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
    """A message, or an `EvalError` for a patch with a field of the wrong type."""
    if type_name != _JSON_PATCH:
        return DynamicObject(type_name, fields)
    for name, value in fields.items():
        if name not in PATCH_FIELDS:
            return EvalError(f"unexpected JSONPatchType field: {name}")
        if name != "value" and not isinstance(value, str):
            return EvalError(f"unexpected type {_go_type(value)} for JSONPatchType '{name}' field")
    return PatchValue(type_name, fields)


def _go_type(value: Value) -> str:
    if isinstance(value, OptionalValue):
        return _go_type(value.value) if value.has_value else "<nil>"
    return next((_GO_TYPES[base] for base in type(value).__mro__ if base in _GO_TYPES), type(value).__name__)


MUTATION = Library(
    name="kubernetes.mutation",
    functions=JSONPATCH.functions,
    struct_fields=_Messages(),
    messages=Messages(_is_message, new_message, _is_object),
)
"""`Object{...}`, `JSONPatch{...}` and `jsonpatch.escapeKey`."""
