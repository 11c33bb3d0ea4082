"""`json.encode` in CEL (cel-go `ext/encoders.go`, since version 1)."""

from __future__ import annotations

import base64
import math
from typing import Final

from replay.cel.declare.library import Function, Library, Overload
from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.equality import elements, find, is_list, is_map, map_keys
from replay.cel.value.text import type_name
from replay.cel.value.timestamp import Duration, Timestamp
from replay.cel.value.types import DYN, STRING
from replay.cel.value.values import EvalError, OptionalValue, TypeValue, Value
from replay.cellib.library.cost import fixed_cost
from replay.go.format import marshal
from replay.json import JSON

_SAFE: Final = 2**53 - 1
_WRAPS_AROUND: Final = -1
"""Cost of a call: the greatest number, so that adding it to the cost so far wraps around to one less."""


def no_text(value: Value) -> EvalError:
    """The error of what Go cannot make a string of, in the words of its type."""
    if isinstance(value, bool) or not isinstance(value, int):
        names = {"double": "Double", "bytes": "Bytes", "null_type": "'null_type'"}
        name = type_name(value)
        return EvalError(f"type conversion error from {names.get(name, name)} to 'string'")
    return EvalError(f"unsupported type conversion from '{type_name(value)}' to string")


def _key(key: Value) -> str:
    if not isinstance(key, str):
        raise no_text(key)
    return key


def _as_json(value: Value) -> JSON:
    """A value as `structpb.Value`, whose numbers are all doubles."""
    if is_map(value):
        return {_key(key): _as_json(find(value, key)[1]) for key in map_keys(value)}
    if is_list(value):
        return [_as_json(item) for item in elements(value)]
    if isinstance(value, OptionalValue):
        if not value.has_value:
            raise EvalError("optional.none() dereference")
        return _as_json(value.value)
    if value is None or isinstance(value, str | bool):
        return value
    return _number(value) if isinstance(value, int | float) else _text(value)


def _number(value: float) -> float | str:
    if isinstance(value, int):
        return float(value) if abs(value) <= _SAFE else str(int(value))
    if not math.isfinite(value):
        raise UndeterminedError("json.encode: a number that is not finite is not written")
    return value


def _text(value: Value) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return value.text()
    if isinstance(value, Duration):
        return value.seconds_text()
    if isinstance(value, TypeValue):
        raise EvalError("type conversion not supported for 'type'")
    raise UndeterminedError(f"json.encode: a value of type {type_name(value)} is not written")


def _encode(value: Value) -> str:
    return marshal(_as_json(value))


JSON_ENCODER = Library(
    name="cel.lib.ext.encoders.json",
    functions=(
        Function(
            "json.encode",
            (Overload("json_encode_dyn", (DYN,), STRING, implementation=_encode, cost=fixed_cost(_WRAPS_AROUND)),),
        ),
    ),
)
"""`json.encode`."""
