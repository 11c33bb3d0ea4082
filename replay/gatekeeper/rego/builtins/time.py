"""Builtins for times (`opa/v1/topdown/time.go`): nanoseconds since 1970, optionally with a zone and a Go layout."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from replay.gatekeeper.rego.builtins.number import fraction_of
from replay.gatekeeper.rego.builtins.operand import BuiltinError, builtin, wrong
from replay.gatekeeper.rego.value import Number, UnknownTouchedError, Value
from replay.go.time import DAYS, MONTHS, RFC3339, DurationError, TimeError, parse_duration, parse_time

_NANO = 1_000_000_000
_LIMIT = 2**63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAYOUTS = {
    "ANSIC": "Mon Jan _2 15:04:05 2006",
    "UnixDate": "Mon Jan _2 15:04:05 MST 2006",
    "RubyDate": "Mon Jan 02 15:04:05 -0700 2006",
    "RFC822": "02 Jan 06 15:04 MST",
    "RFC822Z": "02 Jan 06 15:04 -0700",
    "RFC850": "Monday, 02-Jan-06 15:04:05 MST",
    "RFC1123": "Mon, 02 Jan 2006 15:04:05 MST",
    "RFC1123Z": "Mon, 02 Jan 2006 15:04:05 -0700",
    "RFC3339": RFC3339,
    "RFC3339Nano": "2006-01-02T15:04:05.999999999Z07:00",
}


class _Instant(NamedTuple):
    """Time in a zone, with nanoseconds and the layout for printing."""

    at: datetime
    nanos: int
    layout: str


def _checked(nanoseconds: int) -> int:
    if not -_LIMIT <= nanoseconds < _LIMIT:
        raise BuiltinError
    return nanoseconds


@builtin("time.parse_rfc3339_ns", "s")
def _parse_rfc3339(text: str) -> Value:
    return _parsed(RFC3339, text)


@builtin("time.parse_ns", "ss")
def _parse(layout: str, text: str) -> Value:
    return _parsed(_LAYOUTS.get(layout, layout), text)


def _parsed(layout: str, text: str) -> int:
    try:
        time = parse_time(layout, text)
    except TimeError:
        raise BuiltinError from None
    if time.zone not in ("", "UTC", "GMT"):
        raise UnknownTouchedError("replay does not evaluate time.parse_ns with the name of a time zone")
    return _checked(time.nanoseconds)


_PIECE = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|Z07:00|Z0700|-07:00|-0700|_2006|_2|01|02|03|04|05|06|002|15|PM|pm|[.,]0+|[.,]9+|Z07|-07|1|2|3|4|5"
)
_UNSUPPORTED = frozenset({"_2006", "002", "Z07", "-07"})


def _pieces(layout: str) -> list[str]:
    """Return the parts of a layout. A part that is not supported begins with a zero character."""
    found: list[str] = []
    at = 0
    for match in _PIECE.finditer(layout):
        if match.start() > at:
            found.append(layout[at : match.start()])
        piece = match.group()
        is_fraction = piece[0] in ".,"
        if is_fraction and (
            layout[match.end() : match.end() + 1].isdigit() or not found or found[-1] not in ("05", "5")
        ):
            found.append("\0" + piece)
        else:
            found.append("\0" + piece if piece in _UNSUPPORTED else piece)
        at = match.end()
    if at < len(layout):
        found.append(layout[at:])
    return found


def _instant(value: Value) -> _Instant:
    """Return the time of a number, or of an array of a number, a zone and a layout (`tzTime`). Raises BuiltinError."""
    parts = value if type(value) is list else [value]
    if not parts or type(parts[0]) not in (int, Number):
        wrong(*parts)
        raise BuiltinError
    exact = fraction_of(parts[0])
    if exact.denominator != 1 or not -_LIMIT <= exact < _LIMIT:
        raise BuiltinError
    zone: tzinfo = UTC
    for part in parts[1:3]:
        if type(part) is not str:
            wrong(part)
            raise BuiltinError
    if len(parts) > 1 and parts[1] not in ("", "UTC"):
        zone = _zone(parts[1])
    seconds, nanos = divmod(int(exact), _NANO)
    return _Instant((_EPOCH + timedelta(seconds=seconds)).astimezone(zone), nanos, parts[2] if len(parts) > 2 else "")


def _zone(name: str) -> tzinfo:
    if name == "Local":
        raise UnknownTouchedError("the local time zone of the server is not known")
    # Go's `time.LoadLocation` refuses such names before it looks for a file.
    if ".." in name or name.startswith(("/", "\\")):
        raise BuiltinError
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise BuiltinError from None


@builtin("time.date", "x")
def _date(value: Value) -> Value:
    at = _instant(value).at
    return [at.year, at.month, at.day]


@builtin("time.clock", "x")
def _clock(value: Value) -> Value:
    at = _instant(value).at
    return [at.hour, at.minute, at.second]


@builtin("time.weekday", "x")
def _weekday(value: Value) -> Value:
    return DAYS[_instant(value).at.isoweekday() % 7]


@builtin("time.add_date", "xiii")
def _add_date(value: Value, years: int, months: int, days: int) -> Value:
    instant = _instant(value)
    at = instant.at
    year, month = divmod((at.year + years) * 12 + at.month - 1 + months, 12)
    try:
        # Like Go's `AddDate`: a day that the month does not have runs over into the next month.
        first = at.replace(year=year, month=month + 1, day=1, tzinfo=None) + timedelta(days=at.day - 1 + days)
        moved = first.replace(tzinfo=at.tzinfo)
        seconds = round((moved - _EPOCH).total_seconds()) if at.tzinfo is UTC else int(moved.timestamp())
    except (ValueError, OverflowError):
        raise BuiltinError from None
    return _checked(seconds * _NANO + instant.nanos)


@builtin("time.diff", "xx")
def _diff(one: Value, other: Value) -> Value:
    first, second = _instant(one), _instant(other)
    second = second._replace(at=second.at.astimezone(first.at.tzinfo))
    if (first.at, first.nanos) > (second.at, second.nanos):
        first, second = second, first
    a, b = first.at, second.at
    found = [
        b.year - a.year,
        b.month - a.month,
        b.day - a.day,
        b.hour - a.hour,
        b.minute - a.minute,
        b.second - a.second,
    ]
    for place, size in ((5, 60), (4, 60), (3, 24), (2, monthrange(a.year, a.month)[1]), (1, 12)):
        if found[place] < 0:
            found[place] += size
            found[place - 1] -= 1
    return list(found)


@builtin("time.parse_duration_ns", "s")
def _parse_duration(text: str) -> Value:
    if not text:
        raise BuiltinError
    if re.search("[dwy]", text):
        hours = {"d": 24, "w": 168, "y": 8760}
        if not re.fullmatch(
            r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h|d|w|y))+", text
        ):
            raise BuiltinError
        text = re.sub(
            r"([0-9.]+)([dwy])", lambda match: f"{_decimal(float(match.group(1)) * hours[match.group(2)])}h", text
        )
    try:
        return parse_duration(text)
    except DurationError:
        raise BuiltinError from None


def _decimal(value: float) -> str:
    return (
        str(int(value))
        if value == int(value)
        else format(value, "f").rstrip("0")
        if "e" in repr(value)
        else repr(value)
    )


@builtin("time.format", "x")
def _format(value: Value) -> Value:
    instant = _instant(value)
    layout = _LAYOUTS.get(instant.layout, instant.layout) or _LAYOUTS["RFC3339Nano"]
    return "".join(_formatted(piece, instant, layout) for piece in _pieces(layout))


def _formatted(piece: str, instant: _Instant, layout: str) -> str:
    at = instant.at
    if piece.startswith("\0"):
        raise UnknownTouchedError(f"replay does not evaluate time.format with the layout {layout!r}")
    if piece[0] in ".," and piece[1:] and set(piece[1:]) in ({"0"}, {"9"}):
        digits = f"{instant.nanos:09d}"[: len(piece) - 1]
        digits = digits.rstrip("0") if piece[1] == "9" else digits
        return piece[0] + digits if digits else ""
    hour = at.hour % 12 or 12
    offset = at.utcoffset() or timedelta(0)
    minutes = int(offset.total_seconds() // 60)
    sign, size = ("-" if minutes < 0 else "+"), abs(minutes)
    texts = {
        "2006": f"{at.year:04d}",
        "06": f"{at.year % 100:02d}",
        "01": f"{at.month:02d}",
        "1": str(at.month),
        "January": MONTHS[at.month - 1],
        "Jan": MONTHS[at.month - 1][:3],
        "Monday": DAYS[at.isoweekday() % 7],
        "Mon": DAYS[at.isoweekday() % 7][:3],
        "02": f"{at.day:02d}",
        "2": str(at.day),
        "_2": f"{at.day:2d}",
        "15": f"{at.hour:02d}",
        "03": f"{hour:02d}",
        "3": str(hour),
        "04": f"{at.minute:02d}",
        "4": str(at.minute),
        "05": f"{at.second:02d}",
        "5": str(at.second),
        "PM": "PM" if at.hour >= 12 else "AM",
        "pm": "pm" if at.hour >= 12 else "am",
        "MST": at.tzname() or "UTC",
        "Z07:00": "Z" if not minutes else f"{sign}{size // 60:02d}:{size % 60:02d}",
        "Z0700": "Z" if not minutes else f"{sign}{size // 60:02d}{size % 60:02d}",
        "-07:00": f"{sign}{size // 60:02d}:{size % 60:02d}",
        "-0700": f"{sign}{size // 60:02d}{size % 60:02d}",
    }
    return texts.get(piece, piece)
