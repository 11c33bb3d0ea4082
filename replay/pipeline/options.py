"""Options of commands, as they reach the pipeline: how to work, what to select, and times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from msgspec import Struct, field

from replay.compare.subject import OWNER_LABEL
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.audit.store import Store
    from replay.pipeline.replay.workers import Fleet


_GRAMMAR = (
    ("policy", "policies"),
    ("namespace", "namespaces"),
    ("user", "users"),
    ("workspace", "workspaces"),
)


class Focus(Struct, frozen=True):
    """The selection; empty means everything. Namespaces and users may have `*` and `?`; times are the user's texts."""

    policies: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    zone: tzinfo = UTC
    workspaces: tuple[str, ...] = ()
    batches: tuple[int, int] | None = None
    """The batches of a store whose rows are selected: the first one, and the one after the last."""

    @property
    def text(self) -> str:
        """Return the selection in words, empty for everything."""
        kinds = (self.policies, self.namespaces, self.users, self.workspaces)
        restrictions = [
            f"{words[len(each) > 1]} {', '.join(each)}" for words, each in zip(_GRAMMAR, kinds, strict=True) if each
        ]
        restrictions += [f"{word} {each}" for word, each in (("since", self.since), ("until", self.until)) if each]
        restrictions += ["what was ingested since"] if self.batches is not None else []
        return f"only {'; '.join(restrictions)}" if restrictions else ""

    @property
    def notes(self) -> Iterator[str]:
        """Yield notes for a partial replay."""
        if self.text:
            yield f"{self.text}: numbers can differ from a run of all requests, because consequences of skipped ones count as direct"
        if self.policies:
            yield "validating policies that were not selected count as if they admit everything"


class Options(Struct, frozen=True, kw_only=True):
    """The options of a run. `workers` 0 means one per core."""

    outcomes: Path | None = None
    rejects: Path | None = None
    save_cases: Path | None = None
    """Directory for a case of each distinct finding."""
    redact: bool = True
    owner_label: str = OWNER_LABEL
    """Label of a namespace that names its owner."""
    workers: int = 0
    fleet: Fleet | None = None
    """Fleet that does the work, if not local processes."""
    webhooks: tuple[str, ...] = ()
    """Sources of answers for webhooks (`NAME=URL` or `NAME=recorded`) and authorizers (`NAME=URL` or `NAME=FILE`)."""
    focus: Focus = field(default_factory=Focus)
    """Selection, if not everything."""
    prove: bool = False
    """A flag to prove what each changed policy can do."""
    accepted: Path | None = None
    """File of accepted findings."""
    today: date = date.min
    """Day for checking whether acceptances have expired."""
    authorization_mode: str | None = None
    """Chain of sets without an AuthorizationConfiguration: modes, or the path of a kube-apiserver manifest."""


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
