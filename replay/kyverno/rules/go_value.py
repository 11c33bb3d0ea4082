"""Values as in Kyverno's Go code: how Go prints, compares and parses them.

A Python `float` is a float64, an `int` an int64. Other types are as in decoded JSON. The two kinds of numbers differ:
the request is decoded into float64, but an object that a rule has handled has int64.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from replay.go.format import general_text, positional, scientific, shortest_digits, sign_of
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kyverno.rules.response import UndeterminedError

_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NO_NUMBER = re.compile(r"([+-]?)(inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII)


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
        return general_text(value)
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


def shortest(value: float, *, bits: int = 64) -> str:
    """Return the result of `strconv.FormatFloat(value, 'f', -1, bits)`."""
    value = value if bits == 64 else _of_float32(value)
    return sign_of(value) + positional(*shortest_digits(value)) if math.isfinite(value) else general_text(value)


def exponential(value: float) -> str:
    """Return the result of `strconv.FormatFloat(value, 'E', -1, 64)`."""
    return sign_of(value) + scientific(*shortest_digits(value), "E") if math.isfinite(value) else general_text(value)


def _of_float32(value: float) -> float:
    """Return the float64 with the fewest digits that is the same float32."""
    import struct  # noqa: PLC0415 - asked for by few policies

    try:
        octets = struct.pack("f", value)
    except OverflowError:
        return math.copysign(math.inf, value)
    (narrow,) = struct.unpack("f", octets)
    texts = (f"{narrow:.{precision}g}" for precision in range(1, 10))
    return next((float(text) for text in texts if struct.pack("f", float(text)) == octets), narrow)


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


def truncated(value: float) -> int:
    """Return a float64 converted to int64. The fraction is cut off. Out of range it is the minimum, as on amd64."""
    if not math.isfinite(value) or not -(2.0**63) <= value < 2.0**63:
        return -(2**63)
    return int(value)


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
