"""RFC 3339 times as Go parses and writes them (`time.Parse(time.RFC3339, ...)`, `metav1.Time`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_PARTS = (
    ("2006", r"[0-9]{4}"),
    ("-", "-"),
    ("01", r"[0-9]{2}"),
    ("-", "-"),
    ("02", r"[0-9]{2}"),
    ("T", "T"),
    ("15", r"[0-9]{1,2}"),
    (":", ":"),
    ("04", r"[0-9]{2}"),
    (":", ":"),
    ("05", r"[0-9]{2}(?:[.,][0-9]+)?"),
    ("Z07:00", r"Z|[-+][0-9]{2}:[0-9]{2}"),
)


class TimeError(Exception):
    """The text is no time; `str()` is Go's wording."""


def time_text(text: str) -> str:
    """The same instant as the server writes it: UTC, whole seconds.

    Raises TimeError.
    """
    at = 0
    values: list[str] = []
    for name, pattern in _PARTS:
        match = re.compile(pattern).match(text, at)
        if match is None:
            raise TimeError(f'parsing time {quoted(text)} as "{_LAYOUT}": cannot parse {quoted(text[at:])} as "{name}"')
        values.append(match[0])
        at = match.end()
    if at < len(text):
        raise TimeError(f"parsing time {quoted(text)}: extra text: {quoted(text[at:])}")
    return _in_utc(text, values)


def _in_utc(text: str, values: list[str]) -> str:
    year, month, day, hour, minute = (int(values[index]) for index in (0, 2, 4, 6, 8))
    second = int(values[10][:2])
    offset = _offset(values[11])
    limits = (("month", 1 <= month <= 12), ("day", 1 <= day <= 31), ("hour", hour < 24))
    for what, fits in (*limits, ("minute", minute < 60), ("second", second < 60)):
        if not fits:
            raise TimeError(f"parsing time {quoted(text)}: {what} out of range")
    try:
        instant = datetime(max(year, 1), month, day, hour, minute, second, tzinfo=timezone(offset))
    except ValueError as error:
        raise TimeError(f"parsing time {quoted(text)}: day out of range") from error
    try:
        return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    except OverflowError:
        return text


def _offset(zone: str) -> timedelta:
    if zone == "Z":
        return timedelta()
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    return -offset if zone[0] == "-" else offset


def quoted(text: str) -> str:
    """A text as the time package quotes it: bytes beyond ASCII escaped one by one."""
    shown = ""
    for character in text:
        if " " <= character < "\x80":
            shown += f"\\{character}" if character in '"\\' else character
        else:
            shown += "".join(f"\\x{byte:02x}" for byte in character.encode())
    return f'"{shown}"'
