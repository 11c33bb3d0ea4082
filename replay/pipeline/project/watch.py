"""Running again whenever a file changes that the last run has read, or has come since."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from glob import glob, has_magic
from itertools import count
from pathlib import Path

from replay.pipeline.scenario import STDIN, Scenario
from replay.storage.listing import files_below

INTERVAL = 0.5
"""Seconds between two looks."""

FileStates = dict[str, tuple[int, int]]


def watch(
    paths: Iterable[str | Path],
    once: Callable[[], Iterable[str]],
    *,
    rounds: Iterable[int] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run, then again after each change of some paths (files, directories, globs) or of the files that `once` says it read.

    `rounds` are counted for ever unless given.
    """
    watched = tuple(paths)
    files: tuple[str, ...] = ()
    for _ in count() if rounds is None else rounds:
        # What changes meanwhile is seen afterwards.
        earlier_state = state(watched, files)
        files = tuple(once()) or files
        earlier_state = {**state((), files), **earlier_state}
        while state(watched, files) == earlier_state:
            sleep(INTERVAL)


def state(paths: Iterable[str | Path], files: Iterable[str]) -> FileStates:
    """When each file was changed last and how large it is; one that is gone is not there."""
    roots = [Path(each) for path in paths for each in _expand(str(path))]
    below = (each for path in roots for each in (files_below(path) if path.is_dir() else (path,)))
    states: FileStates = {}
    for path in (*below, *map(Path, files)):
        try:
            status = path.stat()
        except OSError:
            continue
        states[str(path)] = status.st_mtime_ns, status.st_size
    return states


def _expand(path: str) -> Iterable[str]:
    return sorted(glob(path, recursive=True)) if has_magic(path) and not Path(path).exists() else (path,)  # noqa: PTH207


def inputs(scenario: Scenario, *others: Path | None) -> list[str | Path]:
    """All that a run reads: logs, sets, the snapshot, which holds params, and others; what is not there yet may come."""
    paths = (scenario.current, scenario.candidate, *scenario.add, *scenario.apply, scenario.cluster, *others)
    return [*(log for log in scenario.logs if log != STDIN), *(path for path in paths if path is not None)]
