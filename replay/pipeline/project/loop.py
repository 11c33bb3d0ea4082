"""Replaying on save: the first run in whole, then what each change of a file changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack

from msgspec.structs import replace

from replay.audit.ingest import Progress
from replay.compare.result import RunResult
from replay.errors import ReplayError
from replay.pipeline.options import Options
from replay.pipeline.project.watch import inputs, state, watch
from replay.pipeline.run import run
from replay.pipeline.scenario import STDIN, Scenario
from replay.report.run.brief import difference_line
from replay.storage.scratch import scratch

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

    Without a store a temporary one is kept, so that no log is read twice. Raises ReplayError for a log that can only be
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
                # A log that has not changed is not even looked at.
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

        watch(inputs(scenario, options.accepted), once, rounds=rounds)
