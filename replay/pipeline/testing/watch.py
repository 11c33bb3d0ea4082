"""Running again whenever a file changes that the last run has read, or has come since."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

from replay.case.result import CaseReport
from replay.errors import ReplayError
from replay.pipeline.testing.run import CaseOptions, run_tests

INTERVAL = 0.5
"""Seconds between two looks."""

State = dict[str, tuple[int, int]]


def watch_cases(
    options: CaseOptions,
    show: Callable[[CaseReport | ReplayError], None],
    *,
    rounds: Iterable[int] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run, then again after each change; what cannot be run is shown too, since the next change may mend it.

    `rounds` are counted for ever unless given.
    """
    files: tuple[str, ...] = ()
    for _ in count() if rounds is None else rounds:
        # What changes while the cases run is seen afterwards.
        before = state(_watched(options), files)
        try:
            report = run_tests(options)
        except ReplayError as error:
            show(error)
        else:
            files = report.files
            show(report)
            before = {**state((), files), **before}
        while state(_watched(options), files) == before:
            sleep(INTERVAL)


def _watched(options: CaseOptions) -> Iterator[Path]:
    yield from (*options.paths, *options.policies)


def state(paths: Iterable[Path], files: Iterable[str]) -> State:
    """When each file was changed last and how large it is; one that is gone is not there."""
    below = (each for path in paths for each in (path.rglob("*") if path.is_dir() else (path,)))
    found: State = {}
    for path in (*below, *map(Path, files)):
        try:
            status = path.stat()
        except OSError:
            continue
        found[str(path)] = status.st_mtime_ns, status.st_size
    return found
