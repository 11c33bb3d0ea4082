"""Running cases again whenever a file changes that the last run has read, or has come since."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from replay.case.result import CaseReport
from replay.errors import ReplayError
from replay.pipeline.project.watch import watch
from replay.pipeline.testing.run import CaseOptions, run_tests


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

    def once() -> Iterable[str]:
        try:
            report = run_tests(options)
        except ReplayError as error:
            show(error)
            return ()
        show(report)
        return report.files

    watch((*options.paths, *options.policies), once, rounds=rounds, sleep=sleep)
