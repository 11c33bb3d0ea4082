"""Trials: each candidate is decided over the whole store by `replay run`, in a process of its own, and its result is kept.

The result is exactly what `replay run` prints, because it is `replay run`. A result stays on disk, so that a restart shows
it at once. The process runs at low priority: receiving events and answering readers come first.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.audit.catalog import CATALOG
from replay.pipeline.project.watch import state
from replay.serve.settings import ServeSettings, Trial

_POLL_SECONDS = 1.0
_KEY = "key.json"
_NICE = 10
SUMMARY, PAGE, MARKDOWN, CSV = "summary.json", "report.html", "report.md", "findings.csv"


class TrialPhase(StrEnum):
    """What happens to a trial now."""

    WAITING = "waiting"
    DECIDING = "deciding"
    READY = "ready"
    FAILED = "failed"


class TrialState(Struct, frozen=True):
    """A trial now; `summary` is the last result, None before the first one. `since` and `decided` are seconds since the epoch."""

    trial: Trial
    phase: TrialPhase = TrialPhase.WAITING
    since: float = 0.0
    error: str = ""
    summary: dict[str, Any] | None = None
    previous: dict[str, Any] | None = None
    decided: float = 0.0
    seconds: float = 0.0

    @property
    def progress(self) -> str:
        """What a reader is told about the work on the trial."""
        if self.phase is TrialPhase.DECIDING:
            usual = f", usually {self.seconds:.0f} s" if self.seconds else ""
            return f"is being decided for {max(time.time() - self.since, 0):.0f} s{usual}"
        if self.phase is TrialPhase.FAILED:
            return f"cannot be decided: {self.error}"
        return "is decided" if self.summary is not None else "waits for its first result"


class TrialBoard:
    """The states of all trials, for any thread. `told` is called with a trial's state after each new result."""

    def __init__(self, settings: ServeSettings, told: Callable[[TrialState], None] = lambda _state: None) -> None:
        """Load the results of earlier processes."""
        self._settings = settings
        self._told = told
        self._lock = threading.Lock()
        self._states = {trial.name: _loaded(trial, settings.data) for trial in settings.trials}

    def states(self) -> list[TrialState]:
        """Return all trials, in the order of the options."""
        with self._lock:
            return list(self._states.values())

    def get(self, name: str) -> TrialState | None:
        """Return one trial, None if there is none of this name."""
        with self._lock:
            return self._states.get(name)

    def put(self, changed: TrialState) -> None:
        """Replace the state of a trial."""
        with self._lock:
            self._states[changed.trial.name] = changed

    def finished(self, changed: TrialState) -> None:
        """Replace the state of a trial that has a new result, and tell of it."""
        self.put(changed)
        self._told(changed)

    def file(self, name: str, file: str) -> Path:
        """Return the path of a file of a trial's result."""
        return self._settings.data / "trials" / name / file


class TrialRunner(threading.Thread):
    """Decides trials one after the other: when their manifests change at once, when the log has grown at most every so often."""

    def __init__(self, settings: ServeSettings, board: TrialBoard) -> None:
        """Run when `start` is called."""
        super().__init__(name="trials", daemon=True)
        self._settings = settings
        self._board = board
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Decide what is due, until the end."""
        while not self._ended.wait(_POLL_SECONDS):
            for each in self._board.states():
                if self._ended.is_set():
                    return
                key = input_key(self._settings, each.trial)
                if key["store"] and self._is_due(each, key):
                    self._decide(each, key)

    def end(self) -> None:
        """End the thread and the process that decides."""
        self._ended.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        self.join(timeout=30)

    def _is_due(self, each: TrialState, key: dict[str, str]) -> bool:
        last = _read_key(self._board.file(each.trial.name, _KEY))
        if each.phase is TrialPhase.FAILED and each.error and last.get("failed") == key["sets"]:
            return time.time() - each.since >= self._settings.every_seconds
        if last.get("sets") != key["sets"]:
            return True
        return last.get("store") != key["store"] and time.time() - each.decided >= self._settings.every_seconds

    def _decide(self, each: TrialState, key: dict[str, str]) -> None:
        begun = time.time()
        self._board.put(replace(each, phase=TrialPhase.DECIDING, since=begun, error=""))
        directory = self._settings.data / "trials"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = directory / f".{each.trial.name}.new"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        error = self._run(each.trial, work)
        if self._ended.is_set():
            shutil.rmtree(work, ignore_errors=True)
            return
        if error:
            shutil.rmtree(work, ignore_errors=True)
            self._board.put(replace(each, phase=TrialPhase.FAILED, since=time.time(), error=error))
            target = self._board.file(each.trial.name, _KEY)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            target.write_bytes(orjson.dumps({**_read_key(target), "sets": key["sets"], "failed": key["sets"]}))
            return
        decided = time.time()
        seconds = decided - begun
        (work / _KEY).write_bytes(orjson.dumps({**key, "decided": decided, "seconds": seconds}))
        _publish(work, directory / each.trial.name)
        summary = orjson.loads((directory / each.trial.name / SUMMARY).read_bytes())
        self._board.finished(
            TrialState(each.trial, TrialPhase.READY, decided, "", summary, each.summary, decided, seconds)
        )

    def _run(self, trial: Trial, work: Path) -> str:
        """Run `replay run` for a trial; return its error in one line, empty if it succeeded."""
        command = run_command(self._settings, trial, work)
        environment = {**os.environ, "REPLAY_CONFIG": os.devnull}
        with (work / "error").open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and options
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, env=environment
            )
            with_low_priority(self._process.pid)
            code = self._process.wait()
        lines = (work / "error").read_text("utf-8", "replace").strip().splitlines()
        (work / "error").unlink()
        return (
            "" if code == 0 else (lines[-1].removeprefix("replay: ") if lines else f"replay run ended with code {code}")
        )


def run_command(settings: ServeSettings, trial: Trial, work: Path) -> list[str]:
    """Return the command that decides a trial; its files go to `work`."""
    options: list[tuple[str, object]] = [
        ("--store", settings.store),
        ("--candidate", trial.candidate),
        ("--current", settings.current),
        ("--cluster", settings.cluster),
        ("--kubernetes-version", settings.kubernetes_version),
        ("--owner-label", settings.owner_label),
        ("--workers", settings.workers),
        ("--format", "json"),
        ("--out", work / SUMMARY),
        ("--report", work),
        ("--fail-on", "none"),
    ]
    if settings.accepted is not None and settings.accepted.exists():
        options.append(("--accepted", settings.accepted))
    given = [text for name, value in options if value is not None for text in (name, str(value))]
    return [sys.executable, "-m", "replay", "run", *given]


def with_low_priority(process: int) -> None:
    """Lower the priority of a process, where the system allows it."""
    try:
        os.setpriority(os.PRIO_PROCESS, process, _NICE)
    except (OSError, AttributeError):
        return


def input_key(settings: ServeSettings, trial: Trial) -> dict[str, str]:
    """Return digests of a trial's inputs: the manifests and other files, and the store, empty without a store."""
    paths = [path for path in (settings.current, trial.candidate, settings.cluster, settings.accepted) if path]
    sets = hashlib.sha256(repr(sorted(state(paths, ()).items())).encode()).hexdigest()
    try:
        store = hashlib.sha256((Path(settings.store) / CATALOG).read_bytes()).hexdigest()
    except OSError:
        store = ""
    return {"sets": sets, "store": store}


def _publish(work: Path, target: Path) -> None:
    """Put a result in the place of the last one; a reader sees one of them whole."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    work.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _loaded(trial: Trial, data: Path) -> TrialState:
    directory = data / "trials" / trial.name
    try:
        summary = orjson.loads((directory / SUMMARY).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return TrialState(trial)
    key = _read_key(directory / _KEY)
    decided, seconds = float(key.get("decided", 0)), float(key.get("seconds", 0))
    return TrialState(trial, TrialPhase.READY, decided, "", summary, None, decided, seconds)


def _read_key(path: Path) -> dict[str, Any]:
    try:
        key = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return key if isinstance(key, dict) else {}
