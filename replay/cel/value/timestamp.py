"""Points in time and durations, to the nanosecond.

See the language definition, "Abstract Types", and for the texts Go's `time`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from replay.cel.value.number import INT_MAX, INT_MIN, INT_OVERFLOW
from replay.cel.value.values import EvalError
from replay.go.format import parse_int
from replay.go.time import DURATION_UNITS

NANOS = 1_000_000_000
MIN_UNIX = -62135596800
"""0001-01-01T00:00:00Z."""
MAX_UNIX = 253402300799
"""9999-12-31T23:59:59Z."""

_DAY = 86400
_DAYS_TO_UNIX = 719162
"""Days from 0001-01-01 to 1970-01-01."""


class Duration(Struct, frozen=True):
    """A signed time span in nanoseconds, within int64."""

    nanos: int

    def seconds_text(self) -> str:
        """Return `string(duration)`: decimal seconds by way of a double, as Go's `Duration.Seconds` computes them."""
        seconds_, rest = divmod(abs(self.nanos), NANOS)
        seconds = float(seconds_) + rest / 1e9
        return plain_decimal(-seconds if self.nanos < 0 else seconds) + "s"


@dataclass(frozen=True, slots=True, eq=False)
class Timestamp:
    """Instant between the years 1 and 9999, with the UTC offset in seconds that its text had."""

    seconds: int
    nanos: int = 0
    offset: int = 0

    def __eq__(self, other: object) -> bool:
        """Return whether two instants are equal, regardless of their offsets."""
        return isinstance(other, Timestamp) and (self.seconds, self.nanos) == (other.seconds, other.nanos)

    def __hash__(self) -> int:
        """Return a hash of the instant without its offset."""
        return hash((self.seconds, self.nanos))

    def text(self, offset: int | None = None) -> str:
        """Return RFC 3339 with as many fraction digits as needed, in the instant's own offset or the given one."""
        shift = self.offset if offset is None else offset
        local = _civil(self.seconds + shift)
        fraction = f".{self.nanos:09d}".rstrip("0").rstrip(".") if self.nanos else ""
        zone = "Z"
        if shift:
            # Go prints hours and minutes only; the seconds of historical offsets are dropped.
            minutes = abs(shift) // 60
            zone = f"{'-' if shift < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
        year, month, day, hour, minute, second = local
        return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{fraction}{zone}"


def plain_decimal(value: float) -> str:
    """Return the shortest decimal that reads back as the value, without exponent (Go `FormatFloat(v, 'f', -1, 64)`)."""
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-")
    integer, _, fraction = digits.partition(".")
    fraction = "" if fraction == "0" else fraction
    shift = int(exponent)
    if shift >= 0:
        fraction = fraction.ljust(shift, "0")
        rest = fraction[shift:]
        return sign + integer + fraction[:shift] + (f".{rest}" if rest else "")
    return f"{sign}0.{'0' * (-shift - 1)}{integer}{fraction}"


def _civil(seconds: int) -> tuple[int, int, int, int, int, int]:
    """Return the Gregorian date and time of seconds since 1970.

    The calendar also covers the time before 1582. One day outside the years 1 to 9999 is allowed.
    """
    days, rest = divmod(seconds, _DAY)
    hour, rest = divmod(rest, 3600)
    minute, second = divmod(rest, 60)
    ordinal = days + _DAYS_TO_UNIX
    # An offset can push an instant at either end of the range into a year that `datetime` does not have.
    shift = 146097 if ordinal < 0 else -146097 if ordinal > 3652058 else 0
    date = datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=ordinal + shift)
    year = date.year - (400 if shift > 0 else -400 if shift < 0 else 0)
    return year, date.month, date.day, hour, minute, second


def field(instant: Timestamp, name: str, zone: str = "UTC") -> int:  # noqa: PLR0911 - one return a field
    """Return a calendar field (`getFullYear`, `getMonth`, ...) of an instant in a zone.

    Raises `EvalError` for an unknown zone.
    """
    shifted = instant.seconds + zone_offset(zone, instant)
    year, month, day, hour, minute, second = _civil(shifted)
    match name:
        case "getFullYear":
            return year
        case "getMonth":
            return month - 1
        case "getDate":
            return day
        case "getDayOfMonth":
            return day - 1
        case "getDayOfWeek":
            return (shifted // _DAY + 4) % 7
        case "getDayOfYear":
            return _day_of_year(year, month, day)
        case "getHours":
            return hour
        case "getMinutes":
            return minute
        case "getSeconds":
            return second
        case _:
            return instant.nanos // 1_000_000


def _day_of_year(year: int, month: int, day: int) -> int:
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    common = 2000 if leap else 2001
    return (datetime(common, month, day, tzinfo=UTC) - datetime(common, 1, 1, tzinfo=UTC)).days


_ATOI = re.compile(r"[+-]?[0-9]+\Z")


def zone_offset(zone: str, instant: Timestamp) -> int:
    """Return the seconds east of UTC at an instant, for an IANA name or `±hh:mm` (cel-go `inTimeZone`)."""
    hours_text, colon, minutes_text = zone.partition(":")
    if not colon:
        return _zone_offset(zone, instant)
    hours, minutes = _atoi(hours_text), _atoi(minutes_text)
    total = hours * 60 - minutes if zone.startswith("-") else hours * 60 + minutes
    return total * 60


def _atoi(text: str) -> int:
    """Parse an integer like Go's `strconv.Atoi`. Raises `EvalError` with its text."""
    if not _ATOI.match(text):
        raise EvalError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    value = parse_int(text)
    if value is None:
        raise EvalError(f'strconv.Atoi: parsing "{text}": value out of range')
    return value


def _zone_offset(zone: str, instant: Timestamp) -> int:
    """Return the offset of a named zone (Go `time.LoadLocation`). The server's local zone is assumed to be UTC."""
    if zone in ("", "UTC", "Local"):
        return 0
    if ".." in zone or zone[0] in "/\\":
        raise EvalError("time: invalid location name")
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise EvalError(f"unknown time zone {zone}") from error
    # A day inside both ends of the range, where `datetime` can still apply the offset.
    clamped = min(max(instant.seconds, MIN_UNIX + _DAY), MAX_UNIX - _DAY)
    offset = datetime.fromtimestamp(clamped, info).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)\Z",
    re.ASCII,
)


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse RFC 3339 like Go's `time.Parse`. Return None if it does not parse.

    Raises `EvalError` if the time is outside the range of CEL.
    """
    match = _RFC3339.match(text)
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not (1 <= month <= 12 and hour <= 23 and minute <= 59 and second <= 59):
        return None
    offset = _zone_seconds(match[8])
    if offset is None or not 1 <= day <= _month_days(year, month):
        return None
    # Year 0 exists for Go but not for CEL.
    days = _ordinal(year, month, day) - _DAYS_TO_UNIX - 1
    seconds = days * _DAY + hour * 3600 + minute * 60 + second - offset
    if not MIN_UNIX <= seconds <= MAX_UNIX:
        raise EvalError("timestamp overflow")
    nanos = int((match[7] or "0")[:9].ljust(9, "0"))
    return Timestamp(seconds, nanos, offset)


def _zone_seconds(zone: str) -> int | None:
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    # Go accepts a zone of up to 24 hours and 60 minutes.
    if hours > 24 or minutes > 60:
        return None
    total = hours * 3600 + minutes * 60
    return -total if zone[0] == "-" else total


def _month_days(year: int, month: int) -> int:
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    return (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def _ordinal(year: int, month: int, day: int) -> int:
    """Return the days since the day before 0001-01-01. The year 0 is allowed."""
    return datetime(year, month, day).toordinal() if year else datetime(400, month, day).toordinal() - 146097  # noqa: DTZ001 - a date alone


_PART = re.compile(r"(\d*)(?:\.(\d*))?([^\d.]+)", re.ASCII)


def parse_duration(text: str) -> Duration | None:
    """Parse decimals with units like Go's `time.ParseDuration`. Return None if it does not parse."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(body):
        match = _PART.match(body, position)
        if not match or not (match[1] or match[2]) or match[3] not in DURATION_UNITS:
            return None
        value = _part_nanos(match[1], match[2] or "", DURATION_UNITS[match[3]])
        # Go reads the number before the sign, and a negative duration may be one larger than a positive one.
        if value is None or total + value > 2**63:
            return None
        total += value
        position = match.end()
    nanos = -total if text[:1] == "-" else total
    return Duration(nanos) if body and nanos <= INT_MAX else None


def _part_nanos(integer: str, fraction: str, unit: int) -> int | None:
    """Return one number of a duration in nanoseconds.

    The fraction goes through a double, which loses its last digits in Go too.
    """
    significant = integer.lstrip("0")
    if len(significant) > 19:
        return None
    value = int(significant or "0") * unit
    if value > 2**63:
        return None
    digits, scale = 0, 1.0
    for char in fraction:
        grown = digits * 10 + int(char)
        if digits > INT_MAX // 10 or grown > 2**63:
            break
        digits, scale = grown, scale * 10
    return value + (int(float(digits) * (unit / scale)) if digits else 0)


def duration_field(span: Duration, name: str) -> int:
    """Return `getHours`, `getMinutes`, `getSeconds` or `getMilliseconds`: the whole duration in that unit."""
    if name == "getMilliseconds":
        return _towards_zero(span.nanos, 1_000_000)
    unit = {"getHours": 3600 * NANOS, "getMinutes": 60 * NANOS, "getSeconds": NANOS}[name]
    # Go adds whole and fraction as doubles before it truncates.
    units = _towards_zero(span.nanos, unit)
    rest = span.nanos - units * unit
    return int(float(units) + rest / unit)


def _towards_zero(value: int, unit: int) -> int:
    return value // unit if value >= 0 else -(-value // unit)


def checked_duration(nanos: int) -> Duration:
    """Return a duration. As in cel-go, its overflow is reported as that of an int."""
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise EvalError(INT_OVERFLOW)


def timestamp_from_unix(seconds: int, nanos: int = 0, offset: int = 0) -> Timestamp:
    """Return a timestamp of seconds since 1970. Raises `EvalError` outside the years 1 to 9999."""
    if MIN_UNIX <= seconds <= MAX_UNIX:
        return Timestamp(seconds, nanos, offset)
    raise EvalError("timestamp overflow")


def add_duration(instant: Timestamp, span: Duration) -> Timestamp:
    """Return `timestamp + duration`. The offset of the timestamp stays."""
    carry, nanos = divmod(instant.nanos + span.nanos, NANOS)
    return timestamp_from_unix(instant.seconds + carry, nanos, instant.offset)


def subtract_duration(instant: Timestamp, span: Duration) -> Timestamp:
    """Return `timestamp - duration`."""
    return add_duration(instant, checked_duration(-span.nanos))


def subtract_timestamp(left: Timestamp, right: Timestamp) -> Duration:
    """Return `timestamp - timestamp`. The seconds alone must fit before the nanoseconds are added."""
    seconds = checked_duration((left.seconds - right.seconds) * NANOS)
    return checked_duration(seconds.nanos + left.nanos - right.nanos)
