"""Values of well-known protobuf messages (language definition, "JSON Data Conversion" and wrappers)."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping

from replay.cel.value.concat import ConcatList
from replay.cel.value.number import INT_OVERFLOW, UINT_OVERFLOW
from replay.cel.value.timestamp import NANOS, checked_duration, timestamp_from_unix
from replay.cel.value.types import struct_type
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


def new_well_known(type_name: str, fields: Mapping[str, Value]) -> Value:  # noqa: PLR0911 - one return a message
    """Build `google.protobuf.X{...}`; returns an `EvalError` for a message without a value."""
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
    """JSON knows doubles only, and bytes as base64."""
    if isinstance(value, list | ConcatList):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _narrowed(name: str, value: Value) -> Value:
    """The 32-bit wrappers hold less than CEL's numbers; setting null leaves the wrapper unset."""
    if value is None:
        return None
    if name == "FloatValue":
        return struct.unpack("f", struct.pack("f", value))[0]
    if name == "Int32Value" and not -(2**31) <= value < 2**31:
        return EvalError(INT_OVERFLOW)
    if name == "UInt32Value" and value >= 2**32:
        return EvalError(UINT_OVERFLOW)
    return value
