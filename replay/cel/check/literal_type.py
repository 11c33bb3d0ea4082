"""The types of literals."""

from __future__ import annotations

from typing import Final

from replay.cel.value.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT, Type
from replay.cel.value.values import Uint, Value

_LITERAL_TYPES: Final[dict[type, Type]] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


def literal_type(value: Value) -> Type:
    """The type of a literal's value."""
    return _LITERAL_TYPES[type(value)]
