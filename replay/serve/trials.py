"""Trials: the state of each, and its results on disk, so that they are available after a restart."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace

from replay.serve.growth import denied_rows, joined, row_key
from replay.serve.settings import ServeSettings, Trial

SUMMARY, PAGE, MARKDOWN, CSV = "summary.json", "report.html", "report.md", "findings.csv"
_KEY, _GROWTH = "key.json", "growth.json"
_DAY = 86400.0


class TrialPhase(StrEnum):
    """Phase of a trial."""

    WAITING = "waiting"
    DECIDING = "deciding"
    READY = "ready"
    FAILED = "failed"


class WorkProgress(Struct, frozen=True):
    """Progress of a decision over the whole store: the activity and its amount. A total of 0 is unknown."""

    what: str = ""
    done: int = 0
    total: int = 0


class ResultKey(Struct, frozen=True):
    """Identity of a result: digests of manifests and store, the time of the last request in microseconds, the next batch."""

    sets: str = ""
    store: str = ""
    last: int = 0
    batch: int = 0


class TrialState(Struct, frozen=True):
    """State of a trial.

    `summary` is the result over the whole store, None before the first one. `growth` is the later part.

    `since` and `decided` are seconds since the epoch. `seconds` is the processor time of the last decision over the
    whole store.
    """

    trial: Trial
    phase: TrialPhase = TrialPhase.WAITING
    since: float = 0.0
    error: str = ""
    summary: dict[str, Any] | None = None
    growth: dict[str, Any] | None = None
    shown: dict[str, Any] | None = None
    """Both parts joined."""
    seen: dict[str, float] = {}
    """First time of each finding by `row_key`, 0 for findings of the first result."""
    key: ResultKey = ResultKey()
    covered: int = 0
    """Time of the last decided request, in microseconds since the epoch."""
    batch: int = 0
    """Number of the first batch of the store that is not decided yet."""
    decided: float = 0.0
    seconds: float = 0.0
    sets: str = ""
    """Digest of the manifests that are being decided."""
    work: WorkProgress = WorkProgress()

    @property
    def is_changed(self) -> bool:
        """Whether manifests are being decided that have changed since the result."""
        return self.phase is TrialPhase.DECIDING and self.sets != self.key.sets

    @property
    def progress(self) -> str:
        """Description of the work on the trial, for readers."""
        if self.phase is TrialPhase.DECIDING:
            work = self.work
            share = f"{work.what}: {100 * work.done // work.total} %" if work.total else work.what
            return f"is being decided over the whole store ({share or 'begins'})"
        if self.phase is TrialPhase.FAILED:
            return f"cannot be decided: {self.error}"
        return "is decided" if self.summary is not None else "waits for its first result"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of direct denials: one for each policy and workload."""
        return denied_rows(self.shown) if self.shown is not None else []

    def new_rows(self, since: float) -> list[dict[str, Any]]:
        """Return the rows of direct denials that appeared after a time."""
        return [row for row in self.rows if self.seen.get(row_key(row), 0.0) > since]

    def of_last_day(self) -> list[dict[str, Any]]:
        """Return the rows of direct denials that appeared in the last 24 hours."""
        return self.new_rows(time.time() - _DAY)


class TrialBoard:
    """States of all trials, safe for use by several threads.

    `told` is called after each result with new findings, with the trial and these findings.
    """

    def __init__(
        self,
        settings: ServeSettings,
        told: Callable[[TrialState, list[dict[str, Any]]], None] = lambda _state, _rows: None,
    ) -> None:
        """Load the results of earlier processes."""
        self._settings = settings
        self._told = told
        self._lock = threading.RLock()
        self._states = {trial.name: self._loaded(trial) for trial in settings.trials}

    def states(self) -> list[TrialState]:
        """Return all trials, in the order of the options."""
        with self._lock:
            return list(self._states.values())

    def get(self, name: str) -> TrialState | None:
        """Return one trial, or None if there is no trial with this name."""
        with self._lock:
            return self._states.get(name)

    def put(self, changed: TrialState) -> None:
        """Replace the state of a trial."""
        with self._lock:
            self._states[changed.trial.name] = changed

    def change(self, name: str, **fields: Any) -> None:
        """Change some fields of a trial."""
        with self._lock:
            self._states[name] = replace(self._states[name], **fields)

    def file(self, name: str, file: str) -> Path:
        """Return the path of a file of a trial's result."""
        return self._settings.data / "trials" / name / file

    def work_directory(self, name: str, lane: str) -> Path:
        """Return a new, empty directory for a result in preparation. Raises OSError."""
        directory = self._settings.data / "trials"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = directory / f".{name}.{lane}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        return work

    def publish(self, name: str, work: Path, key: ResultKey, summary: dict[str, Any], seconds: float) -> None:
        """Publish a result over the whole store. A reader sees either the previous result or this one. Raises OSError.

        `work` is the directory with the result's files.
        """
        decided = time.time()
        (work / _KEY).write_bytes(orjson.dumps({**asdict(key), "decided": decided, "seconds": seconds}))
        with self._lock:
            target = self._settings.data / "trials" / name
            old = target.with_name(f".{name}.old")
            seen = self._states[name].seen
            shutil.rmtree(old, ignore_errors=True)
            # A directory cannot replace another in one step. `_loaded` repairs an end between the two renames.
            if target.exists():
                target.rename(old)
            work.rename(target)
            shutil.rmtree(old, ignore_errors=True)
            fields = {"summary": summary, "growth": None, "key": key, "covered": key.last, "batch": key.batch}
            self._grown(name, summary, seen, decided=decided, seconds=seconds, **fields)

    def grow(self, name: str, key: ResultKey, document: dict[str, Any], last: int, batch: int) -> None:
        """Add the result of new requests to the result over the whole store, if that still has this key. Raises OSError.

        `last` is the time of the last decided request, `batch` the first batch that is not decided.
        """
        with self._lock:
            state = self._states[name]
            # A whole decision was published meanwhile, which may include these requests.
            if state.summary is None or state.key != key:
                return
            growth = document if state.growth is None else joined(state.growth, document)
            covered = {"covered": last, "batch": batch}
            _write(self.file(name, _GROWTH), {"growth": growth, **covered})
            self._grown(name, joined(state.summary, growth), state.seen, growth=growth, **covered)

    def _grown(self, name: str, shown: dict[str, Any], seen: dict[str, float], **fields: Any) -> None:
        """Show a result, record when its findings appeared, and tell about new ones."""
        # The findings of the first result are not new: nobody is told of them.
        is_first = self._states[name].summary is None and not seen
        found = {row_key(row): row for row in denied_rows(shown)}
        new = [row for key, row in found.items() if key not in seen]
        now = 0.0 if is_first else time.time()
        seen = {**seen, **{row_key(row): now for row in new}}
        state = replace(self._states[name], shown=shown, seen=seen, **fields)
        if "summary" in fields:
            state = replace(state, phase=TrialPhase.READY, error="", work=WorkProgress())
        elif state.phase is not TrialPhase.FAILED:  # new requests say nothing of a whole decision that failed
            state = replace(state, error="")
        self._states[name] = state
        if new:
            _write(self._marker_path(name), seen)
        if new and not is_first:
            self._told(state, new)

    def _marker_path(self, name: str) -> Path:
        return self._settings.data / "trials" / f".{name}.seen"

    def _loaded(self, trial: Trial) -> TrialState:
        directory = self._settings.data / "trials" / trial.name
        old = directory.with_name(f".{trial.name}.old")
        if old.exists() and not directory.exists():  # the process ended between the two
            old.rename(directory)
        seen = _read(self._marker_path(trial.name))
        summary = _read(directory / SUMMARY)
        if not summary:
            return TrialState(trial, seen=seen)
        said, growth = _read(directory / _KEY), _read(directory / _GROWTH)
        key = ResultKey(
            str(said.get("sets", "")), str(said.get("store", "")), int(said.get("last", 0)), int(said.get("batch", 0))
        )
        return TrialState(
            trial,
            TrialPhase.READY,
            summary=summary,
            growth=growth.get("growth"),
            shown=joined(summary, growth["growth"]) if growth else summary,
            seen=seen,
            key=key,
            covered=int(growth.get("covered", key.last)),
            batch=int(growth.get("batch", key.batch)),
            # The clock may have been set back since.
            decided=min(float(said.get("decided", 0)), time.time()),
            seconds=float(said.get("seconds", 0)),
        )


def _write(path: Path, document: object) -> None:
    """Write a document atomically. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(orjson.dumps(document))
    new.replace(path)


def _read(path: Path) -> dict[str, Any]:
    """Return a document. It is empty if the file does not exist or is damaged."""
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return document if isinstance(document, dict) else {}
