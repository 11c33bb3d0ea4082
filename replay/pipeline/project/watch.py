"""Reruns a command when an input file changes or appears: `replay run --watch`, `replay test --watch`.

The first run shows the whole result, later runs the effect of a change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from glob import glob, has_magic
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from replay.audit.ingest import Progress
from replay.case.result import CaseReport
from replay.compare.result import RunResult
from replay.errors import ReplayError
from replay.pipeline.cases import CaseOptions, run_tests
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import STDIN, Scenario
from replay.report.run.brief import difference_line
from replay.storage.directory import files_below
from replay.storage.scratch import scratch

INTERVAL = 0.5
"""Seconds between two checks."""

FileStates = dict[str, tuple[int, int]]


def _watch(
    paths: Iterable[str | Path],
    once: Callable[[], Iterable[str]],
    *,
    rounds: Iterable[int] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run, and run again after each change of some paths, or of the files that `once` returns.

    Paths are files, directories or globs. `rounds` are endless by default.
    """
    watched = tuple(paths)
    files: tuple[str, ...] = ()
    for _ in count() if rounds is None else rounds:
        # A change during the run is noticed after it.
        earlier_state = state(watched, files)
        files = tuple(once()) or files
        earlier_state = {**state((), files), **earlier_state}
        while state(watched, files) == earlier_state:
            sleep(INTERVAL)


def state(paths: Iterable[str | Path], files: Iterable[str]) -> FileStates:
    """Return time of change and size of each existing file."""
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


def _inputs(scenario: Scenario, *others: Path | None) -> list[str | Path]:
    """Return all inputs of a run: logs, sets, the snapshot (which holds parameters) and others.

    They may not exist yet.
    """
    paths = (scenario.current, scenario.candidate, *scenario.add, *scenario.apply, scenario.cluster, *others)
    return [*(log for log in scenario.logs if log != STDIN), *(path for path in paths if path is not None)]


LoopOutcome = RunResult | ReplayError | str


def watch_runs(
    scenario: Scenario,
    options: Options,
    progress: Progress,
    show: Callable[[LoopOutcome], None],
    *,
    rounds: Iterable[int] | None = None,
) -> None:
    """Run and show the result; after each change, show the difference in one line. Errors are shown too.

    Without a store a temporary one is kept, so that no log is read twice. Raise ReplayError for a log that can only be
    read once.
    """
    if STDIN in scenario.logs:
        raise ReplayError("standard input can be read once: --watch needs files")
    last: RunResult | None = None
    logs_in_store: object = None
    with ExitStack() as stack:
        store = scenario.store or stack.enter_context(scratch()) / "store"

        def once() -> Iterable[str]:
            nonlocal last, logs_in_store
            logs = state(scenario.logs, ())
            try:
                # An unchanged log is not read.
                result = run(
                    replace(scenario, store=store, logs=scenario.logs if logs != logs_in_store else ()),
                    options,
                    progress,
                )
            except ReplayError as error:
                show(error)
            else:
                show(result if last is None else difference_line(last, result))
                last, logs_in_store = result, logs
            return ()

        _watch(_inputs(scenario, options.accepted), once, rounds=rounds)


def watch_cases(
    options: CaseOptions,
    show: Callable[[CaseReport | ReplayError], None],
    *,
    rounds: Iterable[int] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run, and run again after each change. Errors are shown too, since the next change may fix them.

    `rounds` are endless by default.
    """

    def once() -> Iterable[str]:
        try:
            report = run_tests(options)
        except ReplayError as error:
            show(error)
            return ()
        show(report)
        return report.files

    _watch((*options.paths, *options.policies), once, rounds=rounds, sleep=sleep)
