"""Protocol of a live log: it returns batches, and repeats a batch that the store could not take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from replay.audit.catalog import FilePosition
from replay.audit.source import LogFile


class LogBatch(Struct, frozen=True):
    """Files with new, whole lines, and the positions after them, if the store should know them.

    Call `commit` when both are in the store. Otherwise the same lines come again.
    """

    files: tuple[LogFile, ...]
    positions: tuple[FilePosition, ...] | None
    commit: Callable[[], None]


class LiveLog(Protocol):
    """A log that grows. All methods are called by one thread."""

    def waiting(self) -> int:
        """Return the approximate number of bytes that can be taken now. Raises ReplayError if no more will come."""
        ...

    def take(self, spool: Path, limit: int) -> LogBatch:
        """Return about `limit` bytes of new lines, oldest first. New files are created in `spool`."""
        ...
