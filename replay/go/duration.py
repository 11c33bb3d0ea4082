"""Durations as Go parses and prints them (`time.ParseDuration`, `Duration.String`), in nanoseconds."""

from __future__ import annotations

import re

from replay.go.time import quoted

SECOND = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_LIMIT = 2**63
_NUMBER = re.compile(r"([0-9]*)(?:\.([0-9]*))?")
_UNIT = re.compile(r"[^.0-9]+")


class DurationError(ValueError):
    """A text is no duration; `str()` is Go's text."""


def parse_duration(text: str) -> int:
    """A sequence of decimals with units. Raises DurationError."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    total, at = 0, 0
    while at < len(rest) or not rest:
        number = _NUMBER.match(rest, at)
        if number is None or not (number[1] or number[2]):
            raise DurationError(f"time: invalid duration {quoted(text)}")
        unit = _UNIT.match(rest, number.end())
        if unit is None:
            raise DurationError(f"time: missing unit in duration {quoted(text)}")
        if unit[0] not in _UNITS:
            raise DurationError(f"time: unknown unit {quoted(unit[0])} in duration {quoted(text)}")
        total += _scaled(number[1], number[2] or "", _UNITS[unit[0]])
        at = unit.end()
        if total > _LIMIT:
            raise DurationError(f"time: invalid duration {quoted(text)}")
    if text[:1] == "-":
        return -total
    if total == _LIMIT:
        raise DurationError(f"time: invalid duration {quoted(text)}")
    return total


def _scaled(integer: str, fraction: str, unit: int) -> int:
    """One number in nanoseconds; Go scales the fraction through a double, of which 18 digits count."""
    nanoseconds = int(integer or "0") * unit
    digits = fraction[:18]
    return nanoseconds + int(float(int(digits)) * (float(unit) / float(10 ** len(digits)))) if digits else nanoseconds


def duration_text(nanoseconds: int) -> str:
    """`1h2m3.5s`, `-5s`, `1.5ms`, `0s`."""
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest < SECOND:
        for unit, size in (("ms", 1_000_000), ("\u00b5s", 1_000), ("ns", 1)):
            if rest >= size:
                return f"{sign}{_decimal(rest, size)}{unit}"
        return "0s"
    minutes, seconds = divmod(rest, 60 * SECOND)
    hours, minutes_left = divmod(minutes, 60)
    text = f"{_decimal(seconds, SECOND)}s"
    if minutes:
        text = f"{minutes_left}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(value: int, size: int) -> str:
    integer, fraction = divmod(value, size)
    digits = f"{fraction:0{len(str(size)) - 1}d}".rstrip("0") if fraction else ""
    return f"{integer}.{digits}" if digits else str(integer)
