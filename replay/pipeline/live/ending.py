"""End of a long-running process by signals."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDINGS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ended_by_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether the first Ctrl-C or SIGTERM has come. A second one ends the process at once.

    The handler runs between any two steps of the main thread. It takes no lock that this thread may hold, so it uses no
    `threading.Event`.
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
