"""Progress bar on stderr for slow steps; a file for the process that asked for one; else nothing if stderr is not a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from replay.audit.ingest import READING
from replay.pipeline.processes import VARIABLE, progress_to
from replay.report.render.document import MICROSECONDS, number, size, span

_WITH_BAR = 110
"""Columns of a terminal that has room for a bar beside the words."""
Report = Callable[[str, int, int], None]
"""Callback: activity, amount done, and total (0 if unknown)."""


class ProgressText(ProgressColumn):
    """Share, amount, speed and time left, each as soon as it is known; logs are read by the byte, all else is counted."""

    def render(self, task: Task) -> Text:
        """The words beside the bar."""
        amount = size if task.description == READING else number
        completed_, total = int(task.completed), task.total
        if total is None:
            return Text(amount(completed_))
        parts = [f"{task.percentage:.0f} %", f"{amount(completed_)} of {amount(int(total))}"]
        # Since the begin: Rich's own speed needs several steps, and a stage may have few.
        if task.elapsed and completed_:
            speed = completed_ / task.elapsed
            parts.append(f"{amount(round(speed))}/s" if speed >= 1 else f"one in {1 / speed:.0f} s")
            if completed_ < total:
                parts.append(f"{span(round((total - completed_) / speed * MICROSECONDS))} left")
        return Text(", ".join(parts))


@contextmanager
def progress_on(console: Console | None = None) -> Iterator[Report]:
    """A function that stages call; the bar appears with the first call and is gone at the end."""
    if path := os.environ.get(VARIABLE):
        yield progress_to(Path(path))
        return
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield lambda _what, _count, _total: None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        # The words alone need 80 columns.
        *([BarColumn(bar_width=24)] if console.width >= _WITH_BAR else []),
        ProgressText(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        expand=False,
    )
    tasks = {}

    def report(what: str, count: int, total: int) -> None:
        bar.start()  # which begins a thread; until then workers may be forked
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total or None)
        bar.update(tasks[what], completed=count, total=total or None)

    try:
        yield report
    finally:
        bar.stop()
