"""A clock that a test sets back: the file that `REPLAY_TEST_CLOCK` names holds the seconds by which it is off.

Python imports this module at the start of each process whose `PYTHONPATH` has this directory.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

_FILE = Path(os.environ["REPLAY_TEST_CLOCK"])
_REAL, _TIME, _TIME_NS = dt.datetime, time.time, time.time_ns


def off() -> float:
    """The seconds by which the clock is off now."""
    return float(_FILE.read_text(encoding="utf-8"))


class _IsReal(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _REAL)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _REAL)

    def __getattr__(cls, name: str) -> Any:
        return getattr(_REAL, name)


class _Datetime(metaclass=_IsReal):
    """The type `datetime`, whose `now` is off."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return _REAL(*arguments, **named)

    @staticmethod
    def now(zone: dt.tzinfo | None = None) -> dt.datetime:
        return _REAL.now(zone) + dt.timedelta(seconds=off())


time.time = lambda: _TIME() + off()
time.time_ns = lambda: _TIME_NS() + int(off() * 1e9)
dt.datetime = _Datetime  # type: ignore[misc]
