"""Times and durations as Go parses and prints them (package `time`).

Durations are in nanoseconds (`time.ParseDuration`, `Duration.String`). Times have a layout (`time.Parse`,
`Time.Format`; `src/time/format.go`). The layout of `metav1.Time` is RFC 3339.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct

SECOND = 1_000_000_000
DURATION_UNITS = {
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
    """Text that is not a duration. `str()` is Go's message."""


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration. Raises DurationError."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    total, at = 0, 0
    while at < len(rest) or not rest:
        number = _NUMBER.match(rest, at)
        if number is None or not (number[1] or number[2]):
            raise DurationError(f"time: invalid duration {_quoted(text)}")
        unit = _UNIT.match(rest, number.end())
        if unit is None:
            raise DurationError(f"time: missing unit in duration {_quoted(text)}")
        if unit[0] not in DURATION_UNITS:
            raise DurationError(f"time: unknown unit {_quoted(unit[0])} in duration {_quoted(text)}")
        total += _scaled(number[1], number[2] or "", DURATION_UNITS[unit[0]])
        at = unit.end()
        if total > _LIMIT:
            raise DurationError(f"time: invalid duration {_quoted(text)}")
    if text[:1] == "-":
        return -total
    if total == _LIMIT:
        raise DurationError(f"time: invalid duration {_quoted(text)}")
    return total


def _scaled(integer: str, fraction: str, unit: int) -> int:
    """Return one number in nanoseconds. Go scales the fraction through a double and uses 18 digits of it."""
    nanoseconds = int(integer or "0") * unit
    digits = fraction[:18]
    return nanoseconds + int(float(int(digits)) * (float(unit) / float(10 ** len(digits)))) if digits else nanoseconds


def duration_text(nanoseconds: int) -> str:
    """Return a duration as `Duration.String` prints it: `1h2m3.5s`, `-5s`, `1.5ms`, `0s`."""
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


class TimeError(Exception):
    """Text that is not a time. `str()` is Go's message."""


def _quoted(text: str) -> str:
    """Return a text as the time package quotes it: bytes beyond ASCII are escaped one by one."""
    shown = ""
    for character in text:
        if " " <= character < "\x80":
            shown += f"\\{character}" if character in '"\\' else character
        else:
            shown += "".join(f"\\x{byte:02x}" for byte in character.encode())
    return f'"{shown}"'


RFC3339 = "2006-01-02T15:04:05Z07:00"
RFC3339_MICRO = "2006-01-02T15:04:05.000000Z07:00"
_DAY = 86_400
_ZERO_TIME = -62_135_596_800
"""Start of year 1 in Unix seconds. Go rounds times down relative to it."""

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
"""The days of the week, from Sunday as in Go."""
_CHUNK = re.compile(
    r"January|Jan(?!uary)|Monday|Mon(?!day)|MST|2006|_2006|002|01|02|03|04|05|06|__2|_2(?!006)|15|PM|pm"
    r"|Z070000|Z07:00:00|Z0700|Z07:00|Z07|-070000|-07:00:00|-0700|-07:00|-07|[.,]0+(?![0-9])|[.,]9+(?![0-9])|1|2|3|4|5"
)

_OFFSETS = {
    "07": r"([+-])([0-9]{2})()()",
    "0700": r"([+-])([0-9]{2})([0-9]{2})()",
    "07:00": r"([+-])([0-9]{2}):([0-9]{2})()",
    "070000": r"([+-])([0-9]{2})([0-9]{2})([0-9]{2})",
    "07:00:00": r"([+-])([0-9]{2}):([0-9]{2}):([0-9]{2})",
}


class GoTime(Struct, frozen=True):
    """Instant in nanoseconds since 1970, with the offset in seconds and the name of its zone."""

    nanoseconds: int
    offset: int = 0
    zone: str = "UTC"

    def in_utc(self) -> GoTime:
        """Return the same instant in UTC."""
        return GoTime(self.nanoseconds)

    def add(self, duration: int) -> GoTime:
        """Return the instant so many nanoseconds later."""
        return GoTime(self.nanoseconds + duration, self.offset, self.zone)

    def subtract(self, other: GoTime) -> int:
        """Return the nanoseconds since another instant, limited to int64."""
        return max(-(2**63), min(2**63 - 1, self.nanoseconds - other.nanoseconds))

    def truncate(self, duration: int) -> GoTime:
        """Return the instant rounded down to a multiple of a duration since the start of year 1."""
        if duration <= 0:
            return self
        return self.add(-((self.nanoseconds - _ZERO_TIME * SECOND) % duration))

    @property
    def civil(self) -> tuple[int, int, int, int, int, int, int]:
        """Year, month, day, hour, minute, second and weekday (0 is Sunday) in its zone."""
        seconds = self.nanoseconds // SECOND + self.offset
        days, rest = divmod(seconds, _DAY)
        year, month, day = _civil(days)
        return year, month, day, rest // 3600, rest % 3600 // 60, rest % 60, (days + 4) % 7

    def rfc3339(self, digits: int = 0) -> str:
        """Return the time as `time.RFC3339` formats it, with up to 9 digits of the fraction. A zero offset is `Z`."""
        year, month, day, hour, minute, second, _ = self.civil
        minutes = abs(self.offset) // 60
        zone = f"{'-' if self.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}" if self.offset else "Z"
        sign = "-" if year < 0 else ""
        fraction = f".{self.nanoseconds % SECOND:09d}"[: digits + 1] if digits else ""
        return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{fraction}{zone}"


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970 in the Gregorian calendar."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def days_in(month: int, year: int) -> int:
    """Return the number of days in a month."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def parse_time(layout: str, text: str) -> GoTime:
    """Parse a time with a layout. Raises TimeError with Go's text."""
    return _Parser(layout, text).parse()


class _BadValueError(Exception):
    """Part of a text that does not fit its part of the layout."""


class _Parser:
    """Parser of one text. Fields are combined at the end."""

    def __init__(self, layout: str, text: str) -> None:
        self._layout = layout
        self._text = text
        self._rest = text
        self._year = 0
        self._month = self._day = self._day_of_year = -1
        self._hour = self._minute = self._second = self._fraction = 0
        self._half = ""
        self._offset: int | None = None
        self._zone = ""

    def parse(self) -> GoTime:
        at = 0
        for match in _CHUNK.finditer(self._layout):
            if match.start() < at:
                continue
            self._skip(self._layout[at : match.start()])
            before = self._rest
            try:
                out_of_range = self._chunk(match[0], self._layout[match.end() :])
            except _BadValueError:
                raise self._error(f": cannot parse {_quoted(before)} as {_quoted(match[0])}", plain=False) from None
            if out_of_range:
                raise self._error(f": {out_of_range} out of range")
            at = match.end()
        self._skip(self._layout[at:])
        if self._rest:
            raise self._error(f": extra text: {_quoted(self._rest)}")
        return self._time()

    def _error(self, message: str, *, plain: bool = True) -> TimeError:
        layout = "" if plain else f" as {_quoted(self._layout)}"
        return TimeError(f"parsing time {_quoted(self._text)}{layout}{message}")

    def _skip(self, prefix: str) -> None:
        """Read a literal part of the layout, in which blanks match any number of blanks."""
        for character in re.sub(" +", " ", prefix):
            if character == " ":
                if self._rest and self._rest[0] != " ":
                    self._mismatch(prefix)
                self._rest = self._rest.lstrip(" ")
            elif self._rest[:1] == character:
                self._rest = self._rest[1:]
            else:
                self._mismatch(prefix)

    def _mismatch(self, prefix: str) -> None:
        raise self._error(f": cannot parse {_quoted(self._rest)} as {_quoted(prefix)}", plain=False)

    def _chunk(self, chunk: str, following: str) -> str:
        """Read the text of one layout element. Return the name of a field that is out of range, or an empty text."""
        if chunk in ("2006", "_2006"):
            self._year = self._digits(4)
        elif chunk == "06":
            year = self._digits(2)
            self._year = year + (1900 if year >= 69 else 2000)
        elif chunk in ("January", "Jan"):
            self._month = 1 + self._name(tuple(name if chunk == "January" else name[:3] for name in MONTHS))
        elif chunk in ("Monday", "Mon"):
            self._name(tuple(name if chunk == "Monday" else name[:3] for name in DAYS))
        elif chunk in ("01", "1"):
            self._month = self._number(fixed=chunk == "01")
            return "" if 1 <= self._month <= 12 else "month"
        elif chunk in ("02", "_2", "2"):
            if chunk == "_2":
                self._rest = self._rest.removeprefix(" ")
            self._day = self._number(fixed=chunk == "02")
        elif chunk in ("002", "__2"):
            self._day_of_year = self._digits(3)
        elif chunk == "15":
            self._hour = self._number(fixed=False)
            return "" if self._hour < 24 else "hour"
        elif chunk in ("03", "3"):
            self._hour = self._number(fixed=chunk == "03")
            return "" if self._hour <= 12 else "hour"
        elif chunk in ("04", "4"):
            self._minute = self._number(fixed=chunk == "04")
            return "" if self._minute < 60 else "minute"
        elif chunk in ("05", "5"):
            self._second = self._number(fixed=chunk == "05")
            if self._second >= 60:
                return "second"
            if not re.match(r"[.,][09]", following):
                self._fractional(r"[.,][0-9]+")
        elif chunk in ("PM", "pm"):
            if self._rest[:2] not in ({"PM", "AM"} if chunk == "PM" else {"pm", "am"}):
                raise _BadValueError
            self._half, self._rest = self._rest[:2].upper(), self._rest[2:]
        elif chunk[0] in ".,":
            if chunk[1] == "9":
                self._fractional(r"[.,][0-9]+")
            elif not self._fractional(rf"[.,][0-9]{{{len(chunk) - 1}}}"):
                raise _BadValueError
        elif chunk == "MST":
            self._named_zone()
        else:
            return self._numeric_zone(chunk)
        return ""

    def _digits(self, count: int) -> int:
        text = self._rest[:count]
        if len(text) < count or not (text.isascii() and text.isdigit()):
            raise _BadValueError
        self._rest = self._rest[count:]
        return int(text)

    def _number(self, *, fixed: bool) -> int:
        match = re.match(r"[0-9]{2}" if fixed else r"[0-9]{1,2}", self._rest, re.ASCII)
        if match is None:
            raise _BadValueError
        self._rest = self._rest[match.end() :]
        return int(match[0])

    def _name(self, names: tuple[str, ...]) -> int:
        for number, name in enumerate(names):
            if self._rest[: len(name)].lower() == name.lower():
                self._rest = self._rest[len(name) :]
                return number
        raise _BadValueError

    def _fractional(self, pattern: str) -> bool:
        match = re.match(pattern, self._rest, re.ASCII)
        if match is None:
            return False
        self._fraction = int(match[0][1:10].ljust(9, "0"))
        self._rest = self._rest[match.end() :]
        return True

    def _named_zone(self) -> None:
        if self._rest.startswith("UTC"):
            self._offset, self._zone, self._rest = 0, "UTC", self._rest[3:]
            return
        match = re.match(r"(?:GMT(?:[+-][0-9]{1,2})?|ChST|MeST|WITA|[A-Z]{3,5}|[+-][0-9]{2})(?![A-Z])", self._rest)
        if match is None:
            raise _BadValueError
        self._zone, self._rest = match[0], self._rest[match.end() :]

    def _numeric_zone(self, chunk: str) -> str:
        if chunk[0] == "Z" and self._rest.startswith("Z"):
            self._rest, self._offset, self._zone = self._rest[1:], 0, "UTC"
            return ""
        match = re.match(_OFFSETS[chunk[1:]], self._rest, re.ASCII)
        if match is None:
            raise _BadValueError
        hours, minutes, seconds = (int(part or "0") for part in match.groups()[1:])
        if hours > 24:
            return "time zone offset hour"
        if minutes > 60:
            return "time zone offset minute"
        if seconds > 60:
            return "time zone offset second"
        offset = hours * 3600 + minutes * 60 + seconds
        self._offset, self._zone = (-offset if match[1] == "-" else offset), ""
        self._rest = self._rest[match.end() :]
        return ""

    def _time(self) -> GoTime:
        if self._half == "PM" and self._hour < 12:
            self._hour += 12
        elif self._half == "AM" and self._hour == 12:
            self._hour = 0
        month, day = max(self._month, 1), 1 if self._day < 0 else self._day
        if self._day_of_year >= 0:
            month, day = self._from_day_of_year()
        if not 1 <= day <= days_in(month, self._year):
            raise self._error(": day out of range")
        seconds = _days(self._year, month, day) * _DAY + self._hour * 3600 + self._minute * 60 + self._second
        offset = self._offset or 0
        return GoTime((seconds - offset) * SECOND + self._fraction, offset, self._zone or "UTC")

    def _from_day_of_year(self) -> tuple[int, int]:
        days = 366 if days_in(2, self._year) == 29 else 365
        if not 1 <= self._day_of_year <= days:
            raise self._error(": day-of-year out of range")
        _, month, day = _civil(_days(self._year, 1, 1) + self._day_of_year - 1)
        if self._month >= 0 and self._month != month:
            raise self._error(": day-of-year does not match month")
        if self._day >= 0 and self._day != day:
            raise self._error(": day-of-year does not match day")
        return month, day


def timestamp(microseconds: int) -> str:
    """Return a time as audit logs have it: RFC 3339 with microseconds (`metav1.MicroTime`)."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{_second(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    """Return the start of a time. It is cached, because all requests of one second share it."""
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%dT%H:%M:%S}"
