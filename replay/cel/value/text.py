"""Values in texts: Go's `%v` and `%g`, type names, and the Go types that messages name."""

from __future__ import annotations

from replay.cel.value.bounds import Steps, joined
from replay.cel.value.concat import ConcatList
from replay.cel.value.timestamp import Duration, Timestamp
from replay.cel.value.types import Kind, Type
from replay.cel.value.values import (
    EvalError,
    ObjectValue,
    OpaqueValue,
    OptionalValue,
    TypedList,
    TypedMap,
    TypeValue,
    Uint,
    Unknown,
    Value,
    plain_key,
)
from replay.go.format import general_text

_TYPE_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    tuple: "list",
    dict: "map",
    TypedList: "list",
    ConcatList: "list",
    TypedMap: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    OptionalValue: "optional_type",
    EvalError: "error",
    Unknown: "unknown",
}

_GO_TYPES: dict[type, str] = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    list: "*types.baseList",
    tuple: "*types.baseList",
    dict: "*types.baseMap",
    TypedList: "*common.reflectSchemalessTypedList",
    ConcatList: "*types.concatList",
    TypedMap: "*common.reflectSchemalessTypedStruct",
    Timestamp: "types.Timestamp",
    Duration: "types.Duration",
    TypeValue: "*types.Type",
    OptionalValue: "*types.Optional",
    EvalError: "*types.Err",
    Unknown: "*types.Unknown",
}


def type_name(value: Value) -> str:
    """Return the run-time type name of a value, as in `type(x)` and `no such overload: f(...)`."""
    name = _TYPE_NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, OpaqueValue):
        return value.cel_type.name
    if isinstance(value, ObjectValue):
        return value.type_name
    for base in type(value).__mro__:
        if base in _TYPE_NAMES:
            return _TYPE_NAMES[base]
    raise TypeError(f"no CEL value: {type(value).__name__}")


def type_text(declared: Type) -> str:
    """Return a checked type as cel-go's `Type.String` writes it: run-time names with parameters."""
    if declared.kind is Kind.TYPE_PARAM:
        return f"<{declared.name}>"
    if not declared.parameters:
        return declared.name
    inner = ", ".join(map(type_text, declared.parameters))
    return f"wrapper({inner})" if declared.kind is Kind.WRAPPER else f"{declared.name}({inner})"


def go_type_name(value: Value) -> str:
    """Return what Go's `%T` prints for the server's representation of a value."""
    for base in type(value).__mro__:
        if base in _GO_TYPES:
            return _GO_TYPES[base]
    name = getattr(type(value), "go_type", "")
    if name:
        return str(name)
    return "*dynamic.ObjectVal" if isinstance(value, ObjectValue) else f"cel.{type(value).__name__}"


def display(value: Value) -> str:
    """Return Go's `%v` of a CEL value, as error texts quote it. Raises `UndeterminedError` if that is far too long."""
    return _display(value, Steps())


def _display(value: Value, steps: Steps) -> str:  # noqa: C901, PLR0911, PLR0912 - one branch a kind
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is Uint:
        return str(int(value))
    if kind is float:
        return general_text(value)
    if kind is bytes:
        return "[" + " ".join(str(byte) for byte in value) + "]"
    if value is None:
        return "NULL_VALUE"
    if isinstance(value, Timestamp):
        return value.text()
    if isinstance(value, Duration):
        return go_duration(value.nanos)
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, OptionalValue):
        return f"optional({_display(value.value, steps)})" if value.has_value else "optional.none()"
    if isinstance(value, EvalError):
        return value.message
    if isinstance(value, TypedMap | TypedList):
        return _display(value.value, steps)
    if isinstance(value, list | tuple | ConcatList):
        return "[" + joined(", ", (_display(element, steps) for element in steps.each(value))) + "]"
    if isinstance(value, dict):
        entries = steps.each(value.items())
        shown = (f"{_display(plain_key(key), steps)}: {_display(item, steps)}" for key, item in entries)
        return "{" + joined(", ", shown) + "}"
    return str(value)


def go_duration(nanos: int) -> str:
    """Return a duration as Go's `Duration.String` does: `1h2m3.5s`, `1.5ms`, `0s`."""
    if nanos == 0:
        return "0s"
    sign, rest = ("-" if nanos < 0 else ""), abs(nanos)
    for unit, name in ((1_000_000_000, ""), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")):
        if rest >= unit and name:
            return sign + _decimal(rest, unit) + name
        if rest >= unit:
            break
    seconds, fraction = divmod(rest, 1_000_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = _decimal(seconds * 1_000_000_000 + fraction, 1_000_000_000) + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _decimal(value: int, unit: int) -> str:
    integer, fraction = divmod(value, unit)
    digits = str(fraction).rjust(len(str(unit)) - 1, "0").rstrip("0") if fraction else ""
    return f"{integer}.{digits}" if digits else str(integer)
