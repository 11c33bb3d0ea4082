"""Base64 and `json.encode` in CEL (cel-go `ext/encoders.go`, with JSON since its version 1)."""

from __future__ import annotations

import base64
import math
import string
from typing import Final

from replay.cel.declare.library import Library, overloaded
from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.equality import elements, find, is_list, is_map, map_keys
from replay.cel.value.text import type_name
from replay.cel.value.timestamp import Duration, Timestamp
from replay.cel.value.types import BYTES, DYN, STRING
from replay.cel.value.values import EvalError, OptionalValue, TypeValue, Value
from replay.cellib.library.cost import argument_estimate, first_traversal, fixed_cost
from replay.go.encoding import Base64Error, decode_base64
from replay.go.format import marshal
from replay.json import JSON

_DIGITS = frozenset((string.ascii_letters + string.digits + "+/").encode())
_BREAKS = b"\r\n"


def _decode(text: str) -> bytes:
    """Decode Base64 text with or without padding."""
    try:
        return decode_base64(text)
    except Base64Error:
        pass
    return _decode_unpadded(text.encode("utf-8", "replace"))


def _decode_unpadded(data: bytes) -> bytes:
    """Decode text without padding. The error has the position that Go reports (`RawStdEncoding`)."""
    at = next((index for index, byte in enumerate(data) if byte not in _DIGITS and byte not in _BREAKS), -1)
    digits = data.translate(None, _BREAKS)
    if at < 0 and len(digits) % 4 == 1:
        at = len(data) - 1
    if at >= 0:
        raise EvalError(f"illegal base64 data at input byte {at}")
    return base64.b64decode(digits + b"=" * (-len(digits) % 4))


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


ENCODERS = Library(
    name="cel.lib.ext.encoders",
    functions=(
        overloaded(
            "base64.decode",
            ("base64_decode_string", (STRING,), BYTES, _decode),
            cost=first_traversal,
            estimate=argument_estimate(),
        ),
        overloaded(
            "base64.encode",
            ("base64_encode_bytes", (BYTES,), STRING, _encode_base64),
            cost=first_traversal,
            estimate=argument_estimate(),
        ),
    ),
)
"""`base64.decode` and `base64.encode`."""


_SAFE: Final = 2**53 - 1
_WRAPS_AROUND: Final = -1
"""Cost of a call: the greatest number, so that adding it to the current cost wraps around to one less."""


def no_text(value: Value) -> EvalError:
    """Return the error for a value that Go cannot convert to a string, with the name of its type."""
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
    """Return a value as `structpb.Value`, in which all numbers are doubles."""
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
        # cel-go writes larger integers as text, because a double would change them.
        return float(value) if abs(value) <= _SAFE else str(int(value))
    if not math.isfinite(value):
        raise UndeterminedError("json.encode: replay does not write numbers that are not finite")
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
    raise UndeterminedError(f"json.encode: replay does not write values of type {type_name(value)}")


def _encode_json(value: Value) -> str:
    return marshal(_as_json(value))


JSON_ENCODER = Library(
    name="cel.lib.ext.encoders.json",
    functions=(
        overloaded("json.encode", ("json_encode_dyn", (DYN,), STRING, _encode_json), cost=fixed_cost(_WRAPS_AROUND)),
    ),
)
"""`json.encode`."""
