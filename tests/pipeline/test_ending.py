"""A process that is told to end ends, whatever it was doing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

import pytest

from replay.pipeline.live import ended_by_signals
from replay.pipeline.options import Options
from replay.pipeline.replay.workers import replay_parts
from tests.pipeline.test_workers import STORE, Double


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_the_first_signal_is_told_and_the_second_is_what_it_was(number: int) -> None:
    came: list[int] = []
    before = signal.signal(number, lambda sent, _frame: came.append(sent))
    try:
        with ended_by_signals() as is_ended:
            told = [is_ended()]
            for _ in range(2):
                os.kill(os.getpid(), number)
                time.sleep(0)  # a handler runs before the next step
                told.append(is_ended())
        assert (told, came) == ([False, True, True], [number])
        os.kill(os.getpid(), number)
        assert came == [number, number]
    finally:
        signal.signal(number, before)


class EndedError(Exception):
    """What a signal's handler raises."""


class Signalling(Double):
    """A job during whose writing a signal comes."""

    number: int

    def __reduce__(self) -> tuple[Callable[[], Double], tuple[()]]:
        os.kill(os.getpid(), self.number)
        time.sleep(0)
        return Double, ()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_nobody_is_given_half_of_a_job(number: int, capfd: pytest.CaptureFixture[str]) -> None:
    """A worker that got one would tell of that beside what the command itself says."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise EndedError

    job = Signalling()
    job.number = number
    before = signal.signal(number, end)
    try:
        with pytest.raises(EndedError):
            replay_parts(job, STORE, Options(workers=2), lambda *_progress: None)
    finally:
        signal.signal(number, before)
    assert (multiprocessing.active_children(), capfd.readouterr()) == ([], ("", ""))
