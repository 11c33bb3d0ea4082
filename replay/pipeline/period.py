"""Times and durations in the form of command-line options."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.audit.store import Store

_LENGTH = re.compile(r"(\d+)\s*(w|d|h|m|min|s)")
_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "min": "minutes", "s": "seconds"}


def time_zone(name: str | None) -> tzinfo:
    """Return the zone of `--tz`, UTC by default. Raise ReplayError with near matches."""
    if not name or name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = get_close_matches(name, sorted(available_timezones()), n=3)
        hint = f"; did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""
        raise ReplayError(f"no time zone `{name}`{hint}") from error


def today() -> date:
    """Return the day in UTC, for the expiry of accepted findings."""
    return datetime.now(UTC).date()


def length(text: str) -> timedelta | None:
    """Return the duration of a text such as `7d`, None for other texts. Raise OverflowError for a too long one."""
    match = _LENGTH.fullmatch(text.strip())
    return timedelta(**{_UNITS[match[2]]: int(match[1])}) if match is not None else None


def instant(text: str, end: datetime, zone: tzinfo) -> datetime:
    """Return the time of a text, in UTC.

    The text is `7d`, `12h` or `30m` before the end of the log, or a time such as `2026-11-21 03:00`. Durations count
    from the last event, not from now: the same log and options give the same result. Times without a zone are in
    `zone`. Raise ReplayError.
    """
    try:
        if (age := length(text)) is not None:
            return end.astimezone(UTC) - age
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise ReplayError(f"no time `{text}`: write 7d, 12h, 30m, or a time such as 2026-11-21T03:00:00Z") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def sql_time(moment: datetime) -> str:
    """Return a time in the form that queries compare: UTC without a zone."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")


def microseconds(at: datetime) -> int:
    """Return a time in microseconds since the epoch, as in the store."""
    return int(at.timestamp()) * 1_000_000 + at.microsecond


def period(store: Store, since: str | None, until: str | None, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the start and end of a period; the ends of the log by default.

    Raise ReplayError for a period without events.
    """
    _, first, last = store.query("log_period").row(0)
    first, last = first.replace(tzinfo=UTC), last.replace(tzinfo=UTC)
    begin = instant(since, last, zone) if since else first
    end = instant(until, last, zone) if until else last
    if begin > end or begin > last or end < first:
        asked_period = " to ".join(f"{each.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}" for each in (first, last))
        raise ReplayError(f"no event in the period asked for: the log is from {asked_period}")
    return begin, end
