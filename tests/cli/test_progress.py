"""What stands beside a progress bar."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from replay.audit.ingest import READING
from replay.cli.progress import ProgressText, progress_on


@pytest.mark.parametrize(
    ("what", "total", "steps", "expected"),
    [
        (READING, 40_000_000, ((0, 0), (2, 10_000_000)), "25 %, 10 MB of 40 MB, 5.0 MB/s, 6 s left"),
        ("Replaying", 8, ((0, 0), (2, 4)), "50 %, 4 of 8, 2/s, 2 s left"),
        ("Replaying", 8, ((0, 0), (10, 2)), "25 %, 2 of 8, one in 5 s, 30 s left"),
        ("Replaying", 8, ((0, 0),), "0 %, 0 of 8"),
        ("Replaying", 8, ((0, 0), (2, 8)), "100 %, 8 of 8, 4/s"),
        (READING, None, ((0, 0), (2, 1_500_000)), "1.5 MB"),
    ],
    ids=["bytes", "parts", "slow", "begun", "done", "no end known"],
)
def test_share_amount_speed_and_time_left(
    what: str, total: int | None, steps: tuple[tuple[float, int], ...], expected: str
) -> None:
    now = 0.0
    bar = Progress(console=Console(file=io.StringIO()), get_time=lambda: now, auto_refresh=False)
    task = bar.add_task(what, total=total)
    for time, done in steps:
        now = time
        bar.update(task, completed=done)
    assert ProgressText().render(bar.tasks[0]).plain == expected


def test_a_terminal_shows_it_and_nothing_else_does() -> None:
    for is_terminal in (True, False):
        out = io.StringIO()
        with progress_on(Console(file=out, force_terminal=is_terminal, width=100)) as report:
            report("Replaying", 1, 4)
        assert ("25 %, 1 of 4" in out.getvalue()) == is_terminal
