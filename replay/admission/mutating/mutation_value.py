"""Result of a mutation expression as JSON (apiserver `pkg/cel/mutation`, `policy/mutating/patch`).

The server converts CEL values to Go values, and its rules are visible in the result. Some values reach structured merge
as Go types that it does not know, and fail there. They are nulls, timestamps, quantities, and map literals inside a
list or map. `GoValue` represents those.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import orjson

from replay.admission.mutating.input_value import InputValues
from replay.cel.value.concat import ConcatList
from replay.cel.value.equality import elements, find, is_list, is_map, map_keys
from replay.cel.value.text import display, go_duration
from replay.cel.value.timestamp import NANOS, Duration, Timestamp
from replay.cel.value.values import (
    MapKey,
    ObjectValue,
    OpaqueValue,
    OptionalValue,
    TypeValue,
    Uint,
    Value,
    plain_key,
    untyped,
)
from replay.go.format import GoValue, quote
from replay.json import JSON

_SAFE_INTEGER = 2**53 - 1
_UNMARSHALABLE = "JSONPath valueExpression evaluated to a type that could not marshal to JSON: "
_TARGET = "*structpb.Value"
_OPAQUE = {
    "kubernetes.Quantity": "Quantity",
    "net.IP": "IP",
    "net.CIDR": "CIDR",
    "kubernetes.URL": "URL",
    "kubernetes.Semver": "Semver",
}


class MutationError(Exception):
    """A value is not a valid mutation. `str()` is the server's text."""


class CrashError(MutationError):
    """The server crashes here and the request fails, with any failure policy."""


class NilSlice(list[Any]):
    """Empty list that an expression made. Go's converter leaves it nil, which is null unless it is decoded again."""


def apply_configuration_from(value: Value, inputs: InputValues) -> dict[str, Any]:
    """Return the object of an `ApplyConfiguration` without `apiVersion` and `kind`. Its leaves may be `GoValue`s.

    Raise `MutationError`.
    """
    if not isinstance(value, ObjectValue):
        type_name = "null_type" if value is None else type(value).__name__
        raise MutationError(f"unsupported return type from ApplyConfiguration expression: {type_name}")
    _check_type_names(value)
    try:
        return _Converter(inputs).object(value)
    except _NoStringKeyError:
        raise MutationError("invalid return type: *dynamic.ObjectVal") from None


def json_patch_from(value: Value, inputs: InputValues) -> list[dict[str, Any]]:
    """Return the operations of a `JSONPatch`: always with `op` and `path`, with `from` and `value` if set.

    Raise `MutationError`.
    """
    return [_operation(item, inputs) for item in elements(value)]


def _operation(item: Value, inputs: InputValues) -> dict[str, Any]:
    if not isinstance(item, ObjectValue) or item.type_name != "JSONPatch":
        raise MutationError("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
    fields = item.fields
    operation: dict[str, Any] = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    # The server writes texts as Go literals. A literal that is not a JSON string counts as absent.
    operation = {name: text for name, text in operation.items() if _is_json_string(quote(text))}
    if "value" in fields:
        inner = fields["value"]
        if isinstance(inner, ObjectValue) and inner.type_name != "JSONPatch":
            _check_type_names(inner)
        try:
            operation["value"] = _structpb(inner, inputs)
        except _ConversionError as error:
            raise MutationError(_UNMARSHALABLE + str(error)) from None
    return operation


def json_from(value: Any) -> JSON:
    """Return `apply_configuration_from`'s result as encoding/json writes it. Raise `MutationError`."""
    if isinstance(value, dict):
        return {name: json_from(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [json_from(item) for item in value]
    if isinstance(value, GoValue):
        if value.json is None:
            raise MutationError(f"json: unsupported type: {value.go_type}")
        return value.json
    return value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _is_json_string(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _check_type_names(value: ObjectValue) -> None:
    """Require that the type names of objects are the field paths that lead to them.

    Source: `CheckTypeNamesMatchFieldPathNames`.
    """
    errors = list(_type_errors(value, value.type_name))
    if errors:
        raise MutationError("type mismatch: " + "\n".join(errors))


def _type_errors(value: Value, expected: str) -> Iterator[str]:
    if isinstance(value, ObjectValue):
        if value.type_name != expected:
            yield (
                f"unexpected type name {quote(value.type_name)}, expected {quote(expected)}, "
                "which matches field name path from root Object type"
            )
        for name, inner in value.fields.items():
            yield from _type_errors(inner, f"{expected}.{name}")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _type_errors(item, expected)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _type_errors(item, expected)


class _NoStringKeyError(Exception):
    """A map has a key that is no string."""


class _Converter:
    """Converts the fields of an `Object` to Go values (`dynamic.convertField`)."""

    def __init__(self, inputs: InputValues) -> None:
        self._inputs = inputs

    def object(self, value: ObjectValue) -> dict[str, Any]:
        converted = {}
        for name, inner in value.fields.items():
            try:
                converted[name] = self._field(inner)
            except _NoStringKeyError as error:
                raise _NoStringKeyError(f"fail to convert field {quote(name)}: {error}") from None
        return converted

    def _field(self, value: Value) -> Any:
        """Return the value of a field.

        Containers of the expression are converted one level deep, inputs at all levels.
        """
        if isinstance(value, OptionalValue):
            if not value.has_value or untyped(value.value) in self._inputs:
                return self._item(value)
            return self._field(value.value)
        value = untyped(value)
        if _is_nested(value) and value in self._inputs:
            return value if self._inputs.are_plain else _without_null(value)
        if isinstance(value, dict):
            return {_string_key(key): self._item(item) for key, item in value.items()}
        if isinstance(value, list | tuple | ConcatList):
            convert = self._field if isinstance(value, ConcatList) else self._item
            items = [convert(item) for item in value]
            return items if items or value in self._inputs else NilSlice()
        return self._item(value)

    def _item(self, value: Value) -> Any:
        """Return the `Value()` of a CEL value: input JSON stays, everything else becomes a Go type."""
        if isinstance(value, OptionalValue):
            return self._item(value.value) if value.has_value else None
        value = untyped(value)
        if isinstance(value, ObjectValue):
            return self._message(value)
        if isinstance(value, ConcatList):
            return [self._item(item) for item in value]
        return self._container(value) if isinstance(value, list | tuple | dict) else _scalar(value)

    def _message(self, value: ObjectValue) -> Any:
        try:
            return self.object(value)
        except _NoStringKeyError as error:
            return GoValue("*types.Err", str(error))

    def _container(self, value: list[Value] | tuple[Value, ...] | dict[Any, Value]) -> Any:
        go_type = self._inputs.go_type(value)
        if go_type is not None:
            return self._inputs.go_value(value, go_type)
        if value in self._inputs:
            return value
        return _made(value)


def _go_time(value: Timestamp) -> str:
    """Return the text of Go's `time.Time.String`."""
    text = value.text()
    day, clock = text[:10], text[11:].rstrip("Z")
    if value.offset == 0:
        return f"{day} {clock} +0000 UTC"
    zone = text[-6:].replace(":", "")
    return f"{day} {clock[:-6]} {zone} {zone}"


def _is_nested(value: Value) -> bool:
    """Return whether the origin of a container matters: it contains other containers, or nulls."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(item is None or isinstance(item, list | dict) for item in inner)


def _without_null(value: JSON) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    return _scalar(value)


def _string_key(key: Value) -> str:
    if isinstance(key, str):
        return key
    plain = key.value if isinstance(key, MapKey) else key
    kind = {bool: "Bool", int: "Int", Uint: "Uint", float: "Double"}.get(type(plain), "Bytes")
    shown = f"'{quote(chr(plain))[1:-1]}'" if type(plain) is int and 0 <= plain < 0x110000 else str(plain)
    raise _NoStringKeyError(f"map key {shown} is of type types.{kind}, not string")


def _made(value: list[Value] | tuple[Value, ...] | dict[Any, Value]) -> GoValue:
    """Return a list or map that an expression created. All of its parts are CEL values, which print themselves."""
    if isinstance(value, dict):
        # `fmt` prints a map in the order of its keys.
        entries = sorted(
            ((display(plain_key(key)), display(inner), key, inner) for key, inner in value.items()), key=itemgetter(0)
        )
        text = "map[" + " ".join(f"{key}:{inner}" for key, inner, _, _ in entries) + "]"
        inside = ", ".join(f"{_cel_syntax(plain_key(key))}:{_cel_syntax(inner)}" for _, _, key, inner in entries)
        return GoValue("map[ref.Val]ref.Val", text, syntax=f"map[ref.Val]ref.Val{{{inside}}}")
    inside = ", ".join(map(_cel_syntax, value))
    return GoValue("[]ref.Val", f"[{' '.join(map(display, value))}]", syntax=f"[]ref.Val{{{inside}}}")


def _cel_syntax(value: Value) -> str:
    """Return `%#v` of a CEL value."""
    return quote(value) if isinstance(value, str) else display(value)


def _scalar(value: Value) -> Any:
    """Return a JSON scalar unchanged, and any other value as the server's Go value."""
    for kinds, convert in _GO_VALUES:
        if isinstance(value, kinds):
            return convert(value)
    return GoValue("structpb.NullValue", "NULL_VALUE", 0) if value is None else value


_GO_VALUES: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (Uint, lambda value: GoValue("uint64", str(int(value)), int(value))),
    (bytes, lambda value: GoValue("[]uint8", f"[{' '.join(map(str, value))}]", _base64(value))),
    (Timestamp, lambda value: GoValue("time.Time", _go_time(value), value.text())),
    (Duration, lambda value: GoValue("time.Duration", go_duration(value.nanos), value.nanos)),
    (TypeValue, lambda value: value.name),
    (OpaqueValue, lambda value: GoValue(getattr(value, "go_type", "ref.Val"), str(value), str(value))),
)


class _ConversionError(Exception):
    """A value has no form in protobuf's JSON type. `str()` is the server's text."""


def _structpb(value: Value, inputs: InputValues) -> JSON:
    """Return the value of a JSON patch operation after its conversion to `structpb.Value`.

    Numbers are doubles there.
    """
    if isinstance(value, OptionalValue):
        if not value.has_value:
            raise _ConversionError("optional.none() dereference")
        return _structpb(value.value, inputs)
    if isinstance(value, ObjectValue):
        if value.type_name == "JSONPatch":
            raise _ConversionError(f"cannot convert to native type: {_TARGET}")
        return _from_native(_object(value, inputs))
    go_type = inputs.go_type(untyped(value))
    if go_type is not None:
        if go_type.is_struct:
            raise _ConversionError(f"type conversion error from struct type {go_type.name} to {_TARGET}")
        name = "map(dyn, dyn)" if is_map(value) else "list(dyn)"
        raise _ConversionError(f"type conversion error from '{name}' to '{_TARGET}'")
    if isinstance(value, ConcatList):
        return [_structpb_joined(item, inputs) for item in value]
    if is_list(value):
        return [_inside(item, inputs, "Set") for item in elements(value)]
    if is_map(value):
        return {_json_key(key): _inside(find(value, key)[1], inputs, "Value.SetMapIndex") for key in map_keys(value)}
    return _structpb_scalar(value)


def _structpb_joined(item: Value, inputs: InputValues) -> JSON:
    """Return an item of joined lists. As a Go value on its way, a map or slice is accepted, and a struct is not."""
    plain = untyped(item)
    go_type = inputs.go_type(plain)
    if go_type is None:
        return _structpb(item, inputs)
    if go_type.is_struct:
        text = inputs.go_value(plain, go_type).text
        raise _ConversionError(f"unsupported conversion to ref.Val: ({go_type.name}){text}")
    if isinstance(plain, dict):
        return {name: _structpb_joined(inner, inputs) for name, inner in plain.items()}
    return [_structpb_joined(inner, inputs) for inner in plain]


def _inside(value: Value, inputs: InputValues, put: str) -> JSON:
    """Return the item of a list or map. `put` is the function of `reflect` that stores it on the server."""
    if inputs.crashes and isinstance(value, ObjectValue) and value.type_name != "JSONPatch":
        raise CrashError(f"reflect.{put}: value of type *structpb.Struct is not assignable to type {_TARGET}")
    return _structpb(value, inputs)


def _object(value: ObjectValue, inputs: InputValues) -> dict[str, Any]:
    try:
        return _Converter(inputs).object(value)
    except _NoStringKeyError:
        raise _ConversionError("map key is of a type that is not string") from None


def _json_key(key: Value) -> str:
    key = key.value if isinstance(key, MapKey) else key
    if not isinstance(key, str):
        if isinstance(key, bool):
            raise _ConversionError("type conversion error from bool to 'string'")
        raise _ConversionError(
            f"unsupported type conversion from '{'uint' if isinstance(key, Uint) else 'int'}' to string"
        )
    return key


def _structpb_scalar(value: Value) -> JSON:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        # protobuf holds numbers as doubles, so cel-go writes larger integers as text.
        return int(value) if abs(value) <= _SAFE_INTEGER else str(int(value))
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, Timestamp):
        return value.text()
    if isinstance(value, Duration):
        return _duration(value)
    if isinstance(value, TypeValue):
        raise _ConversionError("type conversion not supported for 'type'")
    name = value.cel_type.name if isinstance(value, OpaqueValue) else type(value).__name__
    raise _ConversionError(f"type conversion error from '{_OPAQUE.get(name, name)}' to '{_TARGET}'")


def _number(value: float) -> JSON:
    """Return a double as JSON text has it and Kubernetes reads it: integral values within int64 become integers."""
    if not math.isfinite(value):
        shown = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise _ConversionError(
            f"json: error calling MarshalJSON for type {_TARGET}: "
            f"proto: google.protobuf.Value.number_value: invalid {shown} value"
        )
    return int(value) if value.is_integer() and -(2.0**63) <= value < 2.0**63 else value


def _duration(value: Duration) -> str:
    """Return a duration as protobuf writes it: seconds with no, three, six or nine decimals."""
    seconds, rest = divmod(abs(value.nanos), NANOS)
    fraction = f".{rest:09d}" if rest else ""
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{'-' if value.nanos < 0 else ''}{seconds}{fraction}s"


def _from_native(value: Any) -> JSON:
    """Return the result of `structpb.NewValue` for a value. It accepts JSON, unsigned integers and bytes."""
    if isinstance(value, dict):
        return {name: _from_native(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_from_native(item) for item in value]
    if isinstance(value, GoValue):
        if value.go_type == "uint64":
            return _number(float(value.text))
        if value.go_type == "[]uint8":
            return value.json
        raise _ConversionError(f"proto: invalid type: {value.go_type}")
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(float(value))
    return _number(value) if isinstance(value, float) else value
