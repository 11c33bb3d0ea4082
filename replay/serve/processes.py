"""Processes beside the page: the one that receives the log, and the weekly report. Each is a command of `replay`.

They are processes of their own, so that a reader can never stall the receiving. A process that ends is started again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from replay.audit.catalog import CATALOG
from replay.serve.settings import ServeSettings
from replay.serve.trials import with_low_priority

_POLL_SECONDS = 0.5
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_WEEK = 7 * 86400
_RETRY_SECONDS = 3600


def ingest_command(settings: ServeSettings) -> list[str]:
    """Return the command that fills the store, empty if another process does."""
    receiving = settings.receiving
    if not receiving.listen and not receiving.follow:
        return []
    tls = receiving.tls
    options: list[tuple[str, object]] = [
        ("--store", settings.store),
        ("--keep", receiving.keep or None),
        ("--keep-size", receiving.keep_size or None),
        ("--flush-age", receiving.flush_age),
        ("--listen", receiving.listen or None),
        ("--tls-cert-file", tls.certificate),
        ("--tls-private-key-file", tls.key),
        ("--client-ca-file", tls.client_ca),
    ]
    given = [text for name, value in options if value is not None for text in (name, str(value))]
    logs = [*receiving.follow, "--follow"] if receiving.follow else []
    return [sys.executable, "-m", "replay", "ingest", *logs, *given]


class Ingest(threading.Thread):
    """Keeps the process that fills the store running. Its lines go to `tell`."""

    def __init__(self, settings: ServeSettings, tell: Callable[[str], None]) -> None:
        """Run when `start` is called."""
        super().__init__(name="ingest", daemon=True)
        self._command = ingest_command(settings)
        self._tell = tell
        self._ended = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_running(self) -> bool:
        """Whether events are received, or another process fills the store."""
        return not self._command or (self._process is not None and self._process.poll() is None)

    def run(self) -> None:
        """Start the process, and start it again after an end."""
        pause = _FIRST_PAUSE
        while self._command and not self._ended.is_set():
            begun = time.monotonic()
            self._process = _started(self._command)
            for line in self._process.stderr or ():
                self._tell(line.rstrip())
            code = self._process.wait()
            if self._ended.is_set():
                return
            pause = _FIRST_PAUSE if time.monotonic() - begun > _LONGEST_PAUSE else min(pause * 2, _LONGEST_PAUSE)
            self._tell(f"the ingest ended with code {code}: it starts again in {pause:.0f} s")
            self._ended.wait(pause)

    def end(self) -> None:
        """Let the process write what it has received, and end."""
        self._ended.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(timeout=60)


class Weekly(threading.Thread):
    """Writes a report of the last week once a week, into a directory that is called by its day."""

    def __init__(self, settings: ServeSettings, tell: Callable[[str], None]) -> None:
        """Run when `start` is called."""
        super().__init__(name="weekly", daemon=True)
        self._settings = settings
        self._tell = tell
        self._ended = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Write a report whenever the last one is a week old."""
        while not self._ended.wait(_POLL_SECONDS):
            names = weekly_names(self._settings.data)
            last = datetime.fromisoformat(names[0]).replace(tzinfo=UTC).timestamp() if names else 0.0
            if time.time() - last < _WEEK or not (Path(self._settings.store) / CATALOG).exists():
                continue
            if not self._write():
                self._ended.wait(_RETRY_SECONDS)

    def end(self) -> None:
        """End the thread and its process."""
        self._ended.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def _write(self) -> bool:
        day = datetime.now(UTC).date().isoformat()
        target = self._settings.data / "weekly" / day
        work = target.with_name(f".{day}")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700, parents=True)
        self._process = _started(weekly_command(self._settings, work))
        with_low_priority(self._process.pid)
        lines = [line.rstrip() for line in self._process.stderr or ()]
        if self._process.wait() not in (0, 1):
            shutil.rmtree(work, ignore_errors=True)
            self._tell(f"no weekly report: {lines[-1] if lines else 'replay report failed'}")
            return False
        work.rename(target)
        return True


def weekly_command(settings: ServeSettings, work: Path) -> list[str]:
    """Return the command that writes the report of the last week."""
    candidate = settings.trials[0].candidate if settings.trials else None
    options: list[tuple[str, object]] = [
        ("--store", settings.store),
        ("--since", "7d"),
        ("--current", settings.current),
        ("--candidate", candidate),
        ("--cluster", settings.cluster),
        ("--owner-label", settings.owner_label),
        ("--out", work),
    ]
    given = [text for name, value in options if value is not None for text in (name, str(value))]
    return [sys.executable, "-m", "replay", "report", *given]


def weekly_names(data: Path) -> list[str]:
    """Return the days of the weekly reports, newest first."""
    try:
        found = [path.name for path in (data / "weekly").iterdir() if (path / "report.html").is_file()]
    except OSError:
        return []
    return sorted((name for name in found if _is_day(name)), reverse=True)


def _is_day(name: str) -> bool:
    try:
        datetime.fromisoformat(name)
    except ValueError:
        return False
    return True


def _started(command: list[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "REPLAY_CONFIG": os.devnull}
    return subprocess.Popen(  # noqa: S603 - our own interpreter and options
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
    )
