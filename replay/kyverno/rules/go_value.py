"""Values as in Kyverno's Go code: how Go prints, compares and parses them.

A Python `float` is a float64, an `int` an int64. Other types are as in decoded JSON. The two kinds of numbers differ:
the request is decoded into float64, but an object that a rule has handled has int64.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from replay.go.format import parse_int
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kyverno.rules.response import UndeterminedError

_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NO_NUMBER = re.compile(r"([+-]?)(inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII)
_PLAIN_DIGITS = 6


class MapSlice(list[JSON]):
    """Go's `[]map[string]interface{}`, which Kyverno's type switches for `[]interface{}` do not accept as a list."""


def known(value: JSON) -> JSON:
    """Return a value. Raises UndeterminedError if the log does not hold it."""
    if isinstance(value, Missing):
        raise UndeterminedError(f"{value.path}: {value.reason}")
    return value


def with_floats(value: JSON) -> JSON:
    """Return a copy with every number as float64, as `encoding/json` decodes into `interface{}`."""
    if type(value) is dict:
        return {key: with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_floats(item) for item in value]
    return float(value) if type(value) is int else value


def with_integers(value: JSON) -> JSON:
    """Return a copy with every whole number as int64, as unstructured objects are decoded from JSON."""
    if type(value) is dict:
        return {key: with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_integers(item) for item in value]
    if type(value) is float and value.is_integer() and -(2**63) <= value < 2**63:
        return int(value)
    return value


def equal(one: JSON, other: JSON) -> bool:
    """Return whether two values are equal (`reflect.DeepEqual`). `1`, `1.0` and `true` all differ."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(known(one) == known(other))


def is_false(value: JSON) -> bool:
    """Return whether a value is false in JMESPath: null, false, or empty."""
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


def sprint(value: JSON) -> str:
    """Return a value as `%v` prints it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _general(value)
    if isinstance(value, Mapping):
        return "map[" + " ".join(f"{key}:{sprint(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(sprint, value)) + "]"
    return str(known(value))


def type_name(value: JSON) -> str:
    """Return the type of a value as `%T` prints it."""
    if isinstance(value, MapSlice):
        return "[]map[string]interface {}"
    names: Mapping[type, str] = {
        str: "string",
        bool: "bool",
        float: "float64",
        int: "int64",
        dict: "map[string]interface {}",
        list: "[]interface {}",
        type(None): "<nil>",
    }
    return names[type(known(value))]


def _general(value: float) -> str:
    """Return a float64 as `%v` prints it: with the fewest digits, and an exponent below 1e-4 and from 1e6."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    digits, point, sign = _digits(value)
    if not -4 <= point - 1 < _PLAIN_DIGITS:
        return sign + _with_exponent(digits, point - 1, "e")
    return sign + _plain(digits, point)


def fixed(value: float, places: int = 6) -> str:
    """Return a float64 as `%f` prints it."""
    return f"{value:.{places}f}"


def shortest(value: float, *, bits: int = 64) -> str:
    """Return the result of `strconv.FormatFloat(value, 'f', -1, bits)`."""
    if not math.isfinite(value):
        return _general(value)
    digits, point, sign = _digits(value) if bits == 64 else _short_digits(value)
    return sign + _plain(digits, point)


def scientific(value: float) -> str:
    """Return the result of `strconv.FormatFloat(value, 'E', -1, 64)`."""
    if not math.isfinite(value):
        return _general(value)
    digits, point, sign = _digits(value)
    return sign + _with_exponent(digits, point - 1 if value else 0, "E")


def _digits(value: float) -> tuple[str, int, str]:
    """Return the shortest digits of a number, the number of digits before the point, and the sign."""
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return "0", 1, sign
    _, digits, exponent = Decimal(repr(abs(value))).as_tuple()
    text = "".join(map(str, digits))
    return text.rstrip("0") or "0", len(text) + int(exponent), sign


def _short_digits(value: float) -> tuple[str, int, str]:
    """Return the same for the nearest float32."""
    import struct  # noqa: PLC0415 - asked for by few policies

    try:
        (narrow,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return _digits(value)
    for precision in range(1, 10):
        text = f"{narrow:.{precision}g}"
        if struct.pack("f", float(text)) == struct.pack("f", narrow):
            return _digits(float(text))
    return _digits(narrow)


def _with_exponent(digits: str, exponent: int, letter: str) -> str:
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}{letter}{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if point >= len(digits):
        return digits.ljust(point, "0")
    return f"{digits[:point]}.{digits[point:]}"


def parse_float(text: str) -> float | None:
    """Return the result of `strconv.ParseFloat(text, 64)`, or None for an error."""
    if _FLOAT.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else None
    if special := _NO_NUMBER.fullmatch(text):
        return float(special[0])
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except (OverflowError, ValueError):
            return None
    return None


def parse_integer(text: str) -> int | None:
    """Return the result of `strconv.ParseInt(text, 10, 64)`, or None for an error."""
    return parse_int(text)


def truncated(value: float) -> int:
    """Return a float64 converted to int64. The fraction is cut off. Out of range it is the minimum, as on amd64."""
    if not math.isfinite(value) or not -(2.0**63) <= value < 2.0**63:
        return -(2**63)
    return int(value)


def join_non_empty(parts: list[str], separator: str) -> str:
    """Return the non-empty texts, joined (`pkg/utils/strings.JoinNonEmpty`)."""
    return separator.join(part for part in parts if part)


def as_map(value: Any) -> dict[str, Any]:
    """Return the value if it is a mapping, otherwise an empty mapping."""
    return value if isinstance(value, dict) else {}


def json_kind(value: JSON) -> str:
    """Return the name that `encoding/json` has for the type of a value in its errors."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"
