"""Work on trials, in two lanes: one decides trials over the whole store, the other decides requests as they arrive.

Both run `replay run` in a process of low priority, because the ingest and readers come first. The second lane decides
only what was ingested since the last decision, so its cost depends on the new requests. The first lane decides a trial
when its manifests change. For new requests alone it pauses for ten times its processor time, so it uses at most a tenth
of a core.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import orjson
from msgspec.structs import replace

from replay.errors import ReplayError, reason_of
from replay.pipeline.processes import VARIABLE, read_progress
from replay.pipeline.project.watch import state
from replay.serve.settings import ServeSettings, Trial
from replay.serve.stores import LogState, Stores
from replay.serve.trials import SUMMARY, ResultKey, TrialBoard, TrialPhase, TrialState, WorkProgress

_POLL_SECONDS = 1.0
_NICE = 10
_REST = 10.0
"""Pause of a decision over the whole store before the next one for new requests alone, in multiples of its processor
time.
"""


class Run:
    """Process of `replay run` that can be ended and that reports its progress and processor time."""

    def __init__(self, command: list[str], work: Path) -> None:
        """Start the process. Its own files go to `work`. Raises OSError."""
        self._errors = work / "errors"
        self._progress = work / "progress"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and options
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=child_environment() | {VARIABLE: str(self._progress)},
            )
        with_low_priority(self._process.pid)
        self.seconds = 0.0

    def is_ended(self) -> bool:
        """Wait briefly, and return whether the process has ended. `seconds` is then its processor time."""
        if self._process.returncode is not None:
            return True
        # Only `wait4` tells the processor time of one child; `Popen.wait` would discard it.
        pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
        if pid:
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self.seconds = used.ru_utime + used.ru_stime
            return True
        time.sleep(0.1)
        return False

    def terminate(self) -> None:
        """Ask the process to end."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, 15)

    def progress(self) -> WorkProgress:
        """Return the progress of the process."""
        return WorkProgress(*read_progress(self._progress))

    def error(self) -> str:
        """Return the error of an ended process in one line, empty if it succeeded. Remove its own files."""
        lines = self._errors.read_text("utf-8", "replace").strip().splitlines()
        for path in (self._errors, self._progress):
            path.unlink(missing_ok=True)
        code = self._process.returncode
        if code == 0:
            return ""
        return lines[-1].removeprefix("replay: ") if lines else f"replay run ended with code {code}"


class _Lane(threading.Thread):
    """Thread that works on one trial after the other until the end. A subclass says on which, and how."""

    def __init__(self, name: str, settings: ServeSettings, board: TrialBoard, stores: Stores) -> None:
        super().__init__(name=name, daemon=True)
        self.settings = settings
        self.board = board
        self.stores = stores
        self._ended = threading.Event()

    def run(self) -> None:
        """Work until the end."""
        while not self._ended.wait(_POLL_SECONDS):
            # The oldest result first, so that a slow trial does not keep the others waiting for ever.
            for name in [each.trial.name for each in sorted(self.board.states(), key=lambda each: each.decided)]:
                state = self.board.get(name)
                if state is None or self._ended.is_set():
                    return
                try:
                    self.work(state)
                except (OSError, ReplayError) as error:
                    self.failed(name, reason_of(error) if isinstance(error, OSError) else str(error))

    def work(self, state: TrialState) -> None:
        """Do what is due for a trial. Raises OSError, ReplayError."""
        raise NotImplementedError

    def failed(self, name: str, error: str) -> None:
        """Show why the work on a trial failed."""
        raise NotImplementedError

    def end(self) -> None:
        """End the thread and its process."""
        self._ended.set()
        self.join(timeout=30)

    def ran(self, command: list[str], work: Path, told: Callable[[Run], None]) -> tuple[str, float] | None:
        """Run a command.

        Return its error, empty if it succeeded, and its processor time. Return None at the end of the service.
        """
        run = Run(command, work)
        while not run.is_ended():
            told(run)
            if self._ended.is_set():
                run.terminate()
        return None if self._ended.is_set() else (run.error(), run.seconds)


class WholeStoreLane(_Lane):
    """Lane that decides trials over the whole store."""

    def __init__(self, settings: ServeSettings, board: TrialBoard, stores: Stores) -> None:
        """Run when `start` is called."""
        super().__init__("whole", settings, board, stores)
        self._tried: dict[str, tuple[str, float]] = {}
        """Digest of the last decided manifests and monotonic time of that decision, by trial."""

    def work(self, state: TrialState) -> None:
        """Decide a trial if its manifests have changed, or if the store has changed and the pause is over."""
        sets, log = sets_digest(self.settings, state.trial), self.stores.log_state(state.trial.cluster)
        if not log.digest or not self._is_due(state, sets, log.digest):
            return
        try:
            self._decide(state.trial, sets, log)
        finally:
            self._tried[state.trial.name] = sets, time.monotonic()

    def _decide(self, trial: Trial, sets: str, log: LogState) -> None:
        """Decide a trial over the whole store. Raises OSError, ReplayError."""
        name = trial.name
        logs = {log.requests: log}  # what the store was when the process opened it, its result tells by the requests

        def look(run: Run) -> None:
            self.board.change(name, work=run.progress())
            now = self.stores.log_state(trial.cluster)
            logs.setdefault(now.requests, now)

        self.board.change(name, phase=TrialPhase.DECIDING, since=time.time(), sets=sets, work=WorkProgress())
        work = self.board.work_directory(name, "whole")
        try:
            ended = self.ran(run_command(self.settings, trial, work), work, look)
            if ended is None:
                return
            error, seconds = ended
            if error:
                self.failed(name, error)
                return
            summary = orjson.loads((work / SUMMARY).read_bytes())
            log = logs.get(summary["log"]["requests"]) or replace(self.stores.log_state(trial.cluster), digest="")
            self.board.publish(name, work, ResultKey(sets, log.digest, log.last, log.batch), summary, seconds)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def failed(self, name: str, error: str) -> None:
        """Show an error. The previous result stays."""
        self.board.change(name, phase=TrialPhase.FAILED, since=time.time(), error=error, work=WorkProgress())

    def _is_due(self, state: TrialState, sets: str, store: str) -> bool:
        tried, ended = self._tried.get(state.trial.name, ("", -math.inf))
        if sets != tried and (sets != state.key.sets or state.phase is TrialPhase.FAILED):
            return True
        rest = max(self.settings.every_seconds, _REST * state.seconds)
        is_old = state.key.sets != sets or state.key.store != store
        return is_old and time.monotonic() - ended >= rest


class ArrivalLane(_Lane):
    """Lane that decides requests, also late ones, that arrived since a trial was decided over the whole store."""

    def __init__(self, settings: ServeSettings, board: TrialBoard, stores: Stores) -> None:
        """Run when `start` is called."""
        super().__init__("arrivals", settings, board, stores)
        self._tried: dict[str, float] = {}

    def work(self, state: TrialState) -> None:
        """Decide the requests after the decided ones, unless the manifests have changed."""
        name = state.trial.name
        now = time.monotonic()
        if state.summary is None or now - self._tried.get(name, -math.inf) < self.settings.every_seconds:
            return
        log = self.stores.log_state(state.trial.cluster)
        # Without a number the result is that of an older version: the decision over the whole store comes first.
        if not state.batch or log.batch <= state.batch or sets_digest(self.settings, state.trial) != state.key.sets:
            return
        self._tried[name] = now
        work = self.board.work_directory(name, "arrivals")
        try:
            command = run_command(self.settings, state.trial, work, (state.batch, log.batch))
            ended = self.ran(command, work, lambda _run: None)
            if ended is None:
                return
            error, _ = ended
            if error:
                self.failed(name, error)
            else:
                self.board.grow(name, state.key, orjson.loads((work / SUMMARY).read_bytes()), log.last, log.batch)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def failed(self, name: str, error: str) -> None:
        """Show an error. The next decision over the whole store clears or confirms it."""
        state = self.board.get(name)
        if state is not None and state.phase is TrialPhase.READY:
            self.board.change(name, error=error)


def run_command(settings: ServeSettings, trial: Trial, work: Path, batches: tuple[int, int] | None = None) -> list[str]:
    """Return the command that decides a trial over the whole store, or the rows of some batches. Its files go to `work`."""
    options: list[tuple[str, object]] = [
        ("--store", trial.store),
        ("--candidate", trial.candidate),
        ("--current", settings.current),
        ("--cluster", settings.snapshot(trial.cluster)),
        ("--kubernetes-version", settings.kubernetes_version),
        ("--owner-label", settings.owner_label),
        ("--workers", settings.workers),
        ("--format", "json"),
        ("--out", work / SUMMARY),
        ("--fail-on", "none"),
    ]
    if batches is None:
        options.append(("--report", work))
    if settings.accepted is not None and settings.accepted.exists():
        options.append(("--accepted", settings.accepted))
    given = [text for name, value in options if value is not None for text in (name, str(value))]
    selected = ["--batches", *map(str, batches)] if batches is not None else []
    return [sys.executable, "-m", "replay", "run", *given, *selected]


def child_environment() -> dict[str, str]:
    """Return the environment of a child process. Settings of the service reach it only as options."""
    ours = {name: value for name, value in os.environ.items() if name != "REPLAY_CLUSTER_NAME"}
    return {**ours, "REPLAY_CONFIG": os.devnull}


def with_low_priority(process: int) -> None:
    """Lower the priority of a process if the system allows it."""
    try:
        os.setpriority(os.PRIO_PROCESS, process, _NICE)
    except (OSError, AttributeError):
        return


def sets_digest(settings: ServeSettings, trial: Trial) -> str:
    """Return a digest of the inputs of a trial: names, times and sizes of the manifests and the other files."""
    snapshot = settings.snapshot(trial.cluster)
    paths = [path for path in (settings.current, trial.candidate, snapshot, settings.accepted) if path]
    return hashlib.sha256(repr(sorted(state(paths, ()).items())).encode()).hexdigest()
