"""Numbers in text as Go reads them (`strconv.ParseInt` and `ParseUint`, base 10).

Python's `int` and `str.isdigit` take what Go does not: digits of other scripts, underscores, blanks, superscripts. And beyond
4,300 digits it raises an error of its own.
"""

from __future__ import annotations

import re

_SIGNED = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_MOST_DIGITS = 20
"""No number of 64 bits has more."""


def parse_int(text: str, bits: int = 64) -> int | None:
    """Parse an integer with `bits` bits; None for other texts or out of range."""
    if _SIGNED.fullmatch(text) is None:
        return None
    magnitude = _magnitude(text.lstrip("+-"))
    if magnitude is None:
        return None
    value = -magnitude if text.startswith("-") else magnitude
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_uint(text: str, bits: int = 64) -> int | None:
    """Parse an unsigned integer with `bits` bits; None for other texts or out of range."""
    if _UNSIGNED.fullmatch(text) is None:
        return None
    value = _magnitude(text)
    return value if value is not None and value < 1 << bits else None


def _magnitude(digits: str) -> int | None:
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= _MOST_DIGITS else None
