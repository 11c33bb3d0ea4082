"""JSON: decoding with the numbers of Kubernetes (`sigs.k8s.io/json`, `UnmarshalCaseSensitivePreserveInts`), and printing."""

import json
import math
from typing import Any

import orjson

JSON = Any
"""A decoded JSON value: dict, list, str, int, float, bool or None."""

FieldPath = tuple[str | int, ...]
"""The keys from a JSON value to a part of it."""

_LIMIT = 2**63
_LONG = b"0" * 19
"""Digits, read as zeros, of which an integer beyond int64 could be made; most texts have none, and looking is cheap."""
_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)


def decode_json(text: str | bytes) -> JSON:
    """Decode a JSON text: integers that fit int64 become ints, all other numbers floats. Raises `orjson.JSONDecodeError`."""
    value = orjson.loads(text)
    octets = text.encode() if isinstance(text, str) else text
    return with_doubles(value) if _LONG in octets.translate(_AS_ZEROS) else value


def json_document(value: JSON, indent: int = 1) -> str:
    """Return a value as commands print it, with a line end."""
    return json.dumps(value, indent=indent, ensure_ascii=False) + "\n"


def integer(digits: str) -> float:
    """Return the int of a decimal text if it fits int64, else the nearest float."""
    number = float(digits)
    if not -_LIMIT <= number <= _LIMIT:
        return number
    exact = int(digits)
    return exact if -_LIMIT <= exact < _LIMIT else number


def with_doubles(value: JSON) -> JSON:
    """Replace integers that do not fit int64 by floats. Changes containers in place."""
    if type(value) is int:
        return _as_go_number(value)
    left = [value]
    while left:
        container = left.pop()
        if isinstance(container, dict):
            entries: Any = container.items()
        elif isinstance(container, list):
            entries = enumerate(container)
        else:
            continue
        for key, item in entries:
            if type(item) is int and not -_LIMIT <= item < _LIMIT:
                container[key] = _as_go_number(item)
            elif isinstance(item, (dict, list)):
                left.append(item)
    return value


def _as_go_number(number: int) -> float:
    if -_LIMIT <= number < _LIMIT:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
