"""What a live log gives, whatever it comes from: a bit at a time, of which nothing is lost where a store cannot take it yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from replay.audit.catalog import Position
from replay.audit.source import LogFile


class LogBatch(Struct, frozen=True):
    """Files with what is new, whole lines, and how far files are read after them, where the store is to know it.

    `commit` is called when both are in the store; without that the same is taken again.
    """

    files: tuple[LogFile, ...]
    positions: tuple[Position, ...] | None
    commit: Callable[[], None]


class LiveLog(Protocol):
    """A log that grows. All methods are called by one thread."""

    def waiting(self) -> int:
        """About how many bytes could be taken now; raises ReplayError where nothing will come any more."""
        ...

    def take(self, spool: Path, limit: int) -> LogBatch:
        """About `limit` bytes of what is new, the oldest first; files that are made for it are made in `spool`."""
        ...
