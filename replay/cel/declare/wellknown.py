"""Well-known protobuf messages, which CEL knows by name: their fields and values.

See "JSON Data Conversion" and wrappers in the language definition.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Final

from replay.cel.declare.library import Library, Messages, VariableDecl
from replay.cel.value.concat import ConcatList
from replay.cel.value.number import INT_OVERFLOW, UINT_OVERFLOW
from replay.cel.value.timestamp import NANOS, checked_duration, timestamp_from_unix
from replay.cel.value.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Kind,
    Type,
    list_type,
    map_type,
    struct_type,
    wrapper_type,
)
from replay.cel.value.values import EvalError, MessageValue, Uint, Value

_DEFAULTS: dict[str, Value] = {
    "BoolValue": False,
    "BytesValue": b"",
    "DoubleValue": 0.0,
    "FloatValue": 0.0,
    "Int64Value": 0,
    "Int32Value": 0,
    "UInt64Value": Uint(0),
    "UInt32Value": Uint(0),
    "StringValue": "",
}


def _new_well_known(type_name: str, fields: Mapping[str, Value]) -> Value:  # noqa: PLR0911 - one return a message
    """Build `google.protobuf.X{...}`, or return an `EvalError` for a message without a value."""
    name = type_name.removeprefix("google.protobuf.")
    if name in _DEFAULTS:
        return _narrowed(name, fields.get("value", _DEFAULTS[name]))
    if name == "Empty":
        return MessageValue(struct_type(type_name))
    if "null_value" in fields:
        return None
    if name in ("ListValue", "Struct", "Value"):
        return _json(next(iter(fields.values()), {"ListValue": [], "Struct": {}}.get(name)))
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    try:
        if name == "Timestamp":
            carry, rest = divmod(nanos, NANOS)
            return timestamp_from_unix(seconds + carry, rest)
        if name == "Duration":
            return checked_duration(seconds * NANOS + nanos)
    except EvalError as error:
        return error
    return EvalError("unsupported conversion to ref.Val: (*dynamicpb.Message)")


def _json(value: Value) -> Value:
    """Return a value as JSON: all numbers are doubles, bytes are base64."""
    if isinstance(value, list | ConcatList):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _narrowed(name: str, value: Value) -> Value:
    """Check a value against the 32-bit wrappers, which hold less than CEL's numbers. Null leaves the wrapper unset."""
    if value is None:
        return None
    if name == "FloatValue":
        return struct.unpack("f", struct.pack("f", value))[0]
    if name == "Int32Value" and not -(2**31) <= value < 2**31:
        return EvalError(INT_OVERFLOW)
    if name == "UInt32Value" and value >= 2**32:
        return EvalError(UINT_OVERFLOW)
    return value


_PREFIX = "google.protobuf."
_WRAPPED = {
    "BoolValue": BOOL,
    "BytesValue": BYTES,
    "DoubleValue": DOUBLE,
    "FloatValue": DOUBLE,
    "Int64Value": INT,
    "Int32Value": INT,
    "UInt64Value": UINT,
    "UInt32Value": UINT,
    "StringValue": STRING,
}

WELL_KNOWN_TYPES: Final[dict[str, Type]] = {
    **{_PREFIX + name: wrapper_type(wrapped) for name, wrapped in _WRAPPED.items()},
    _PREFIX + "Any": ANY,
    _PREFIX + "Duration": DURATION,
    _PREFIX + "Timestamp": TIMESTAMP,
    _PREFIX + "ListValue": list_type(DYN),
    _PREFIX + "Struct": map_type(STRING, DYN),
    _PREFIX + "Value": DYN,
}
"""The type of the value of a well-known message."""

WELL_KNOWN_MESSAGES: Final[dict[Kind, str]] = {
    Kind.ANY: _PREFIX + "Any",
    Kind.DURATION: _PREFIX + "Duration",
    Kind.DYN: _PREFIX + "Value",
    Kind.LIST: _PREFIX + "ListValue",
    Kind.NULL: _PREFIX + "NullValue",
    Kind.TIMESTAMP: _PREFIX + "Timestamp",
}
"""The message whose fields are used to build a value of a well-known type."""

EMPTY: Final = struct_type(_PREFIX + "Empty")
"""The only message that is itself a value, and a type with a name."""

_TIME = {"seconds": INT, "nanos": INT}

WELL_KNOWN_BUILDER: Final = Messages(
    is_built=lambda type_name: type_name.startswith(_PREFIX),
    new=_new_well_known,
    reads_fields=lambda _: False,
)
"""Builds the well-known messages, unless another library has messages of the same names."""

WELL_KNOWN_LIBRARY: Final = Library(
    "wellknown",
    types=(EMPTY,),
    variables=(VariableDecl(_PREFIX + "NullValue.NULL_VALUE", INT, value=0, is_constant=True),),
    struct_fields={
        **{_PREFIX + name: {"value": wrapped} for name, wrapped in _WRAPPED.items()},
        _PREFIX + "Any": {"type_url": STRING, "value": BYTES},
        _PREFIX + "Duration": _TIME,
        _PREFIX + "Timestamp": _TIME,
        _PREFIX + "ListValue": {"values": list_type(DYN)},
        _PREFIX + "Struct": {"fields": map_type(STRING, DYN)},
        _PREFIX + "Value": {
            "null_value": INT,
            "number_value": DOUBLE,
            "string_value": STRING,
            "bool_value": BOOL,
            "struct_value": map_type(STRING, DYN),
            "list_value": list_type(DYN),
        },
        EMPTY.name: {},
    },
)
"""The fields of the well-known messages, for building them, and the value of their only enumeration."""
