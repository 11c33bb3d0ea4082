"""Conversions between types (`int(x)`, `string(x)`, ...), with the error texts of cel-go's `ConvertToType`."""

from __future__ import annotations

import math
import re

from replay.cel.value.number import (
    checked_int,
    checked_uint,
    int_from_double,
    uint_from_double,
)
from replay.cel.value.text import type_name
from replay.cel.value.timestamp import Duration, Timestamp, parse_duration, parse_timestamp, timestamp_from_unix
from replay.cel.value.values import EvalError, ObjectValue, TypeValue, Uint, Value
from replay.go.format import general_text, parse_int, parse_uint

_DECIMAL_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+\Z")
_SPECIAL_FLOAT = re.compile(r"[+-]?(?:inf|infinity|nan)\Z", re.IGNORECASE)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def conversion_error(source: str, target: str) -> EvalError:
    """Return the error of a conversion that has no result."""
    return EvalError(f"type conversion error from '{source}' to '{target}'")


def to_int(value: Value) -> int:
    """Return `int(value)` of a double, uint, string, timestamp (seconds since 1970) or duration (nanoseconds)."""
    match value:
        case float():
            return int_from_double(value)
        case str():
            number = parse_int(value)
            if number is None:
                raise conversion_error("string", "int")
            return number
        case Timestamp():
            return value.seconds
        case Duration():
            return value.nanos
        case _:
            return checked_int(int(value))


def to_uint(value: Value) -> Uint:
    """Return `uint(value)` of a double, int or string."""
    if isinstance(value, float):
        return uint_from_double(value)
    if isinstance(value, str):
        number = parse_uint(value)
        if number is None:
            raise conversion_error("string", "uint")
        return Uint(number)
    return checked_uint(int(value))


def to_double(value: Value) -> float:
    """Return `double(value)` of an int, uint or string (Go `strconv.ParseFloat`)."""
    if not isinstance(value, str):
        return float(value)
    value = _without_separators(value)
    if _DECIMAL_FLOAT.match(value):
        number = float(value)
        if math.isfinite(number):
            return number
    elif _SPECIAL_FLOAT.match(value):
        # Go accepts a sign before an infinity, but not before NaN.
        if value[-1:] in "nN" and value[:1] in "+-":
            raise conversion_error("string", "double")
        return float(value)
    elif _HEX_FLOAT.match(value):
        return float.fromhex(value)
    raise conversion_error("string", "double")


_SEPARATOR = re.compile(r"(?<=[0-9a-fA-FxX])_(?=[0-9a-fA-F])")


def _without_separators(text: str) -> str:
    """Remove underscores between digits, as Go does."""
    return _SEPARATOR.sub("", text) if "_" in text else text


def to_bool(value: str) -> bool:
    """Return `bool(value)` of a string (Go `strconv.ParseBool`)."""
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise conversion_error("string", "bool")


def to_bytes(value: str) -> bytes:
    """Return `bytes(value)`, the UTF-8 encoding of a string."""
    return value.encode("utf-8", "surrogatepass")


def to_string(value: Value) -> str:  # noqa: PLR0911 - one return a type
    """Return `string(value)`."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            try:
                return value.decode("utf-8")
            except UnicodeDecodeError:
                raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from None
        case float():
            return general_text(value)
        case int():
            return str(int(value))
        case Timestamp():
            return value.text()
        case Duration():
            return value.seconds_text()
        case _:
            return str(value)


def to_timestamp(value: Value) -> Timestamp:
    """Return `timestamp(value)` of a string (RFC 3339) or an int (seconds since 1970)."""
    if isinstance(value, int):
        return timestamp_from_unix(value)
    instant = parse_timestamp(value)
    if instant is None:
        raise conversion_error("string", "google.protobuf.Timestamp")
    return instant


def to_duration(value: Value) -> Duration:
    """Return `duration(value)` of a string such as `1h30m`. Up to cel-go 0.26 it accepts an int too, and always fails."""
    if not isinstance(value, str):
        raise conversion_error(type_name(value), "google.protobuf.Duration")
    span = parse_duration(value)
    if span is None:
        raise conversion_error("string", "google.protobuf.Duration")
    return span


def to_type(value: Value) -> TypeValue:
    """Return `type(value)`."""
    if isinstance(value, ObjectValue):
        # apiserver `dynamic.ObjectVal` answers with the type of a type.
        return TypeValue("type")
    return TypeValue(type_name(value))
