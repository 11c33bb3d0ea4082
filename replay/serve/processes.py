"""Processes besides the page: the ingest that receives the log, and the weekly report. Both are `replay` commands.

They are separate processes, so readers can never delay the ingest. A process that ends is started again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from replay.audit.source import is_there
from replay.errors import ReplayError, reason_of
from replay.serve.runner import child_environment, with_low_priority
from replay.serve.settings import ServeSettings, Trial
from replay.serve.stores import Stores

_POLL_SECONDS = 0.5
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_HOUR, _DAY = 3600, 86400
_MICROSECONDS = 1_000_000
_WEEK = 7 * _DAY
_COUNT = re.compile(r"([\d,]+) (?:events? (read)|requests? refused)")
"""Output line of the ingest that contains a count."""
_RETRY_SECONDS = 3600
_LAST_SECONDS = 60.0
"""Seconds that the ingest has to write what it received.

What it has not written then is still in its journal or in the log.
"""


class Intake(Struct, frozen=True):
    """Counts since the start: events that were read into the store, and requests that were refused."""

    received: int = 0
    refused: int = 0

    def after(self, line: str) -> Intake:
        """Return the counts after a line of the ingest."""
        match = _COUNT.match(line)
        if match is None:
            return self
        count = int(match[1].replace(",", ""))
        is_read = match[2] == "read"
        return Intake(self.received + count * is_read, self.refused + count * (not is_read))


def ingest_command(settings: ServeSettings, logs: Sequence[str] = ()) -> list[str]:
    """Return the command that fills the store, either once from logs or live. It is empty if another process does it."""
    receiving = settings.receiving
    if not (receiving.listen or receiving.follow or logs):
        return []
    tls = receiving.tls
    is_live = not logs
    options: list[tuple[str, object]] = [
        ("--store", settings.store),
        ("--cluster-name", receiving.cluster or None),
        ("--keep", receiving.keep or None if is_live else None),
        ("--keep-size", receiving.keep_size or None if is_live else None),
        ("--flush-age", receiving.flush_age if is_live else None),
        ("--listen", receiving.listen or None),
        ("--tls-cert-file", tls.certificate),
        ("--tls-private-key-file", tls.key),
        ("--client-ca-file", tls.client_ca),
    ]
    given = [text for name, value in options if value is not None for text in (name, str(value))]
    named = [*logs] if logs else [*receiving.follow, *(["--follow"] if receiving.follow else [])]
    return [sys.executable, "-m", "replay", "ingest", *named, *given]


def pulled(places: Iterable[str], since: float, until: float) -> tuple[str, ...]:
    """Return the places of the hours of a period, each once, in order.

    A place without a date is the same for each hour.
    """
    hours = range(int(since) // _HOUR, int(until) // _HOUR + 1)
    times = [datetime.fromtimestamp(hour * _HOUR, UTC) for hour in hours]
    return tuple(dict.fromkeys(time.strftime(place) for place in places for time in times))


class Ingest(threading.Thread):
    """Thread that keeps the ingest process running, and restarts it. Its lines go to `tell`."""

    def __init__(self, settings: ServeSettings, tell: Callable[[str], None]) -> None:
        """Run when `start` is called."""
        super().__init__(name="ingest", daemon=True)
        self._settings = settings
        self._tell = tell
        self._ended = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._is_well = True
        self.intake = Intake()

    @property
    def is_running(self) -> bool:
        """Whether events are received, or another process fills the store."""
        if self._settings.receiving.pull:
            return self._is_well
        return not ingest_command(self._settings) or (self._process is not None and self._process.poll() is None)

    def run(self) -> None:
        """Start the process, and restart it after it ends."""
        if self._settings.receiving.pull:
            self._pull()
        pause = _FIRST_PAUSE
        while (command := ingest_command(self._settings)) and not self._ended.is_set():
            begun = time.monotonic()
            code = self._ran(command)
            if self._ended.is_set():
                return
            # A process that ran for a while was well, so its end is a new problem.
            pause = _FIRST_PAUSE if time.monotonic() - begun > _LONGEST_PAUSE else min(pause * 2, _LONGEST_PAUSE)
            self._tell(f"the ingest ended with code {code}: it starts again in {pause:.0f} s")
            self._ended.wait(pause)

    def end(self) -> None:
        """Let the process write what it received, then end it."""
        self._ended.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=_LAST_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def _pull(self) -> None:
        """Read the places of the last day, then those since an hour before the last success, until the end."""
        since = time.time() - _DAY
        while not self._ended.is_set():
            now = time.time()
            self._is_well = self.is_pulled(since, now)
            # Places are written by the hour, and the last hour may still have grown.
            since = now - _HOUR if self._is_well else since
            self._ended.wait(self._settings.receiving.pull_seconds)

    def is_pulled(self, since: float, until: float) -> bool:
        """Read the places of a period that exist. Return whether events were read.

        An hour without requests has no file.
        """
        places = pulled(self._settings.receiving.pull, since, until)
        try:
            filled = [place for place in places if is_there(place)]
        except ReplayError as error:
            self._tell(str(error))
            return False
        if not filled:
            self._tell(f"nothing to read from {places[0]} to {places[-1]}")
            return False
        return self._ran(ingest_command(self._settings, filled)) == 0

    def _ran(self, command: list[str]) -> int:
        with _started(command) as self._process:
            for line in self._process.stderr or ():
                self.intake = self.intake.after(line)
                self._tell(line.rstrip())
        return self._process.returncode


class WeeklyReport(NamedTuple):
    """Report of the archive: its last day and its cluster, which is empty for a store of one cluster."""

    day: str
    cluster: str

    @property
    def name(self) -> str:
        """Name of its directory."""
        return f"{self.day}.{self.cluster}" if self.cluster else self.day


class Weekly(threading.Thread):
    """Thread that writes a report of the last week once a week for each cluster.

    The first report is due when the log covers a week.
    """

    def __init__(self, settings: ServeSettings, stores: Stores, tell: Callable[[str], None]) -> None:
        """Run when `start` is called."""
        super().__init__(name="weekly", daemon=True)
        self._settings = settings
        self._stores = stores
        self._tell = tell
        self._ended = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Write a report whenever the last one is a week old."""
        tried: dict[str, float] = {}
        firsts = {trial.cluster: trial for trial in reversed(self._settings.trials)}
        while not self._ended.wait(_POLL_SECONDS):
            for cluster, trial in firsts.items():
                days = [each.day for each in weekly_reports(self._settings.data) if each.cluster == cluster]
                if days:
                    is_due = time.time() - datetime.fromisoformat(days[0]).replace(tzinfo=UTC).timestamp() >= _WEEK
                else:
                    log = self._stores.log_state(cluster)
                    is_due = log.last - log.first >= _WEEK * _MICROSECONDS
                if not is_due or time.monotonic() - tried.get(cluster, -_RETRY_SECONDS) < _RETRY_SECONDS:
                    continue
                tried[cluster] = time.monotonic()
                try:
                    self._write(trial)
                except OSError as error:
                    self._tell(f"no weekly report: {reason_of(error)}")

    def end(self) -> None:
        """End the thread and its process."""
        self._ended.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def _write(self, trial: Trial) -> None:
        """Write a report. Raises OSError."""
        report = WeeklyReport(datetime.now(UTC).date().isoformat(), trial.cluster)
        target = self._settings.data / "weekly" / report.name
        # Only the rename at the end makes the report visible, so nobody sees a part of it.
        work = target.with_name(f".{report.name}")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700, parents=True)
        self._process = _started(weekly_command(self._settings, trial, work))
        with_low_priority(self._process.pid)
        lines = [line.rstrip() for line in self._process.stderr or ()]
        # The exit code 1 means that the report has findings.
        if self._process.wait() in (0, 1):
            work.rename(target)
            return
        shutil.rmtree(work, ignore_errors=True)
        if not self._ended.is_set():
            self._tell(f"no weekly report: {lines[-1] if lines else 'replay report failed'}")


def weekly_command(settings: ServeSettings, trial: Trial, work: Path) -> list[str]:
    """Return the command that writes the report of the last week."""
    options: list[tuple[str, object]] = [
        ("--store", trial.store),
        ("--since", "7d"),
        ("--current", settings.current),
        ("--candidate", trial.candidate),
        ("--cluster", settings.snapshot(trial.cluster)),
        ("--owner-label", settings.owner_label),
        ("--out", work),
    ]
    given = [text for name, value in options if value is not None for text in (name, str(value))]
    return [sys.executable, "-m", "replay", "report", *given]


def weekly_reports(data: Path) -> list[WeeklyReport]:
    """Return the weekly reports, newest first."""
    try:
        names = [path.name for path in (data / "weekly").iterdir() if (path / "report.html").is_file()]
    except OSError:
        return []
    found = [WeeklyReport(day, cluster) for day, _, cluster in (name.partition(".") for name in names)]
    return sorted(
        (each for each in found if _is_day(each.day)), key=lambda each: (each.day, each.cluster), reverse=True
    )


def _is_day(name: str) -> bool:
    try:
        datetime.fromisoformat(name)
    except ValueError:
        return False
    return True


def _started(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own interpreter and options
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=child_environment(),
    )
