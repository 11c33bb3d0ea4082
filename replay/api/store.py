"""`replay.Store`: kept audit logs, with SQL queries."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from replay.audit.format.table import formats_named
from replay.audit.store import Store as StoredLog
from replay.pipeline.forensic.sql import run_query
from replay.pipeline.scenario import Scenario

if TYPE_CHECKING:
    import pyarrow as pa

StrPath = str | PathLike[str]


class Store:
    """A store of audit logs in a directory, or in a bucket (a URL); it is made with the first log. `replay ingest` fills the same."""

    def __init__(self, path: StrPath) -> None:
        """Name the place; nothing is read yet."""
        self.path = place_of(path)

    def __repr__(self) -> str:
        """`Store('audit.store')`."""
        return f"Store({str(self.path)!r})"

    def ingest(self, logs: StrPath | Iterable[StrPath], *, log_format: str = "") -> int:
        """Read logs (files, directories, globs) that the store does not know yet; returns how many requests it holds now.

        Raises ReplayError; the store is then as it was.
        """
        with StoredLog.open(self.path) as store:
            store.ingest(paths(logs), formats=formats_named(log_format) if log_format else ())
            return store.requests

    @property
    def requests(self) -> int:
        """How many requests it holds."""
        with StoredLog.open(self.path) as store:
            return store.requests

    def sql(self, query: str, *, redact: bool = True, **parameters: str) -> pa.Table:
        """The rows of a SELECT over the views `request` and `decision`, or of a named query (`queries/README.md`).

        `redact` hides Secret data and tokens. Raises ReplayError for what is no SELECT, or fails.
        """
        return run_query(Scenario(store=self.path), query, parameters, silent, redact=redact).to_arrow()


def place_of(path: StrPath) -> Path | str:
    """A directory, or a URL as it is."""
    return fspath(path) if "://" in fspath(path) else Path(path)


def silent(_what: str, _count: int, _total: int) -> None:
    """No progress shown."""


def paths(path: StrPath | Iterable[StrPath]) -> tuple[str, ...]:
    """Return one path or several as a tuple."""
    return (fspath(path),) if isinstance(path, str | PathLike) else tuple(fspath(each) for each in path)
