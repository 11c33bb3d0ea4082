"""The messages of mutating policies: `Object{...}` and `JSONPatch{...}` (apiserver `pkg/cel/mutation`).

Object types are made as they are named: `Object`, and `Object.` with the path of fields from the root. Every field name
is allowed, and every field is dynamic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replay.cel.declare.library import Library
from replay.cel.value.timestamp import Duration, Timestamp
from replay.cel.value.types import DYN, STRING, UNSPECIFIED, Type
from replay.cel.value.values import EvalError, ObjectValue, OptionalValue, Uint, Value
from replay.cellib.library.jsonpatch import JSONPATCH

_OBJECT = "Object"
_JSON_PATCH = "JSONPatch"

_GO_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int64",
    Uint: "uint64",
    float: "float64",
    bytes: "[]uint8",
    list: "[]ref.Val",
    dict: "map[ref.Val]ref.Val",
    ObjectValue: "map[string]interface {}",
    type(None): "structpb.NullValue",
    Timestamp: "time.Time",
    Duration: "time.Duration",
}


class _Fields(Mapping[str, Type]):
    """The fields of a message: those that are known, and one type for all others."""

    def __init__(self, known: Mapping[str, Type], other: Type) -> None:
        self._known = known
        self._other = other

    def __getitem__(self, name: str) -> Type:
        return self._known.get(name, self._other)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


_OBJECT_FIELDS = _Fields({}, DYN)
_PATCH_FIELDS = _Fields({"op": STRING, "path": STRING, "from": STRING, "value": DYN}, UNSPECIFIED)


class _Messages(Mapping[str, Mapping[str, Type]]):
    """The fields of every message type, by its name."""

    def __getitem__(self, name: str) -> Mapping[str, Type]:
        if name == _JSON_PATCH:
            return _PATCH_FIELDS
        if name == _OBJECT or name.startswith(f"{_OBJECT}."):
            return _OBJECT_FIELDS
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """One name of each form, so that a reader of the names learns where dots may be."""
        return iter((_JSON_PATCH, _OBJECT, f"{_OBJECT}.metadata"))

    def __len__(self) -> int:
        return 3


def new_message(type_name: str, fields: Mapping[str, Value]) -> Value:
    """An `ObjectValue`, an `EvalError` for a patch with a field of the wrong type, None for a type of another library."""
    if type_name == _JSON_PATCH:
        for name, value in fields.items():
            if name in ("op", "path", "from") and not isinstance(value, str):
                return EvalError(f"unexpected type {_go_type(value)} for JSONPatchType '{name}' field")
            if name not in ("op", "path", "from", "value"):
                return EvalError(f"unexpected JSONPatchType field: {name}")
    elif type_name != _OBJECT and not type_name.startswith(f"{_OBJECT}."):
        return None
    return ObjectValue(type_name, fields)


def _go_type(value: Value) -> str:
    if isinstance(value, OptionalValue):
        return _go_type(value.value) if value.has_value else "<nil>"
    return next((_GO_TYPES[base] for base in type(value).__mro__ if base in _GO_TYPES), type(value).__name__)


MUTATION = Library(
    name="kubernetes.mutation",
    functions=JSONPATCH.functions,
    struct_fields=_Messages(),
    new_object=new_message,
)
"""`Object{...}`, `JSONPatch{...}` and `jsonpatch.escapeKey`."""
