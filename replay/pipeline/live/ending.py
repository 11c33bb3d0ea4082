"""How a process that runs until it is told to end is told so."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDINGS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ended_by_signals() -> Iterator[Callable[[], bool]]:
    """What says whether the first Ctrl-C or SIGTERM has come; the second one ends the process as it ends any other command.

    The handler runs between any two steps of the main thread and takes no lock that this may hold: no `threading.Event`.
    """
    numbers: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _ENDINGS}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def end(number: int, _frame: FrameType | None) -> None:
        restore()
        numbers.append(number)

    for number in _ENDINGS:
        signal.signal(number, end)
    try:
        yield lambda: bool(numbers)
    finally:
        restore()
