"""Current content of the stores, for pages, metrics and the lanes. A store is read again when it has changed."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from replay.audit.catalog import CATALOG, JOURNAL, SEGMENTS, SegmentEntry, read_catalog
from replay.errors import ReplayError
from replay.storage.location import opened

_MICROSECONDS = 1_000_000
_MINUTE = 60 * _MICROSECONDS
GAP_MINUTES = 5
_ROWS, _REJECTS = "rows-", "rejects.parquet"
"""Prefix of segment files with requests, and the name of the file with unusable lines."""


class LogState(Struct, frozen=True):
    """State of a store. Times are in microseconds since the epoch. `waiting` bytes are received but not in the store yet."""

    requests: int = 0
    events: int = 0
    octets: int = 0
    first: int = 0
    last: int = 0
    batch: int = 0
    """Number of the next batch of rows to be ingested."""
    waiting: int = 0
    rejects: Mapping[str, int] = {}
    digest: str = ""
    """Digest of the store's catalogue. It is empty if the store does not exist."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Periods without any request. A live cluster has none, because components renew their leases all the time."""

    @property
    def lag(self) -> float:
        """Seconds since the last request of the store. It is 0 for an empty store."""
        return max(time.time() - self.last / _MICROSECONDS, 0.0) if self.last else 0.0


class _Facts(NamedTuple):
    """Facts about a segment.

    `first` is the time of its first request in microseconds, 0 if it has none. `minutes` are those with requests.
    `rejects` counts unusable lines by reason.
    """

    first: int
    minutes: frozenset[int]
    rejects: dict[str, int]


class _Watch:
    """Watch over one store."""

    def __init__(self, store: str) -> None:
        self._store = Path(store)
        self._lock = Lock()
        self._seen: tuple[int, int] | None = None
        self._facts: dict[str, _Facts] = {}
        self._state = LogState()

    def now(self) -> LogState:
        with self._lock:
            stamp = _stamp(self._store / CATALOG)
            if stamp is not None and stamp != self._seen:
                try:
                    self._state = self._read()
                    self._seen = stamp
                except (ReplayError, OSError):  # a store that is put in order now is read the next time
                    pass
            return replace(self._state, waiting=_waiting(self._store))

    def _read(self) -> LogState:
        content = (self._store / CATALOG).read_bytes()
        with ExitStack() as stack:
            catalog = read_catalog(opened(str(self._store), stack))
        segments = catalog.segments
        self._facts = {
            each.name: self._facts.get(each.name) or _facts(self._store / SEGMENTS / each.name, each)
            for each in segments
        }
        firsts = [facts.first for facts in self._facts.values() if facts.first]
        rejects = Counter[str]()
        for facts in self._facts.values():
            rejects.update(facts.rejects)
        return LogState(
            sum(each.requests - each.replaced for each in segments),
            sum(each.events for each in segments),
            sum(file.size for each in segments for file in each.data),
            min(firsts, default=0),
            max((each.last for each in segments), default=0),
            catalog.batch,
            0,
            dict(rejects),
            hashlib.sha256(content).hexdigest(),
            gaps_of(minute for facts in self._facts.values() for minute in facts.minutes),
        )


class Stores:
    """Stores by cluster. A store of one cluster has an empty name."""

    def __init__(self, locations: Mapping[str, str]) -> None:
        """Prepare without reading anything."""
        self._watches = {name: _Watch(location) for name, location in locations.items()}

    def log_state(self, cluster: str) -> LogState:
        """Return the state of one store."""
        return self._watches[cluster].now()

    def now(self) -> dict[str, LogState]:
        """Return the states of all stores."""
        return {name: watch.now() for name, watch in self._watches.items()}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _waiting(store: Path) -> int:
    octets = 0
    try:
        for path in (store / JOURNAL).iterdir():
            try:
                octets += path.stat().st_size
            except OSError:  # in the store since
                continue
    except OSError:
        return octets
    return octets


def _facts(directory: Path, segment: SegmentEntry) -> _Facts:
    """Return the facts about a segment that the catalogue lacks. Only its own files are read."""
    import polars as pl  # noqa: PLC0415 - only a store that has grown needs it

    try:
        return _read_facts(directory, segment)
    except pl.exceptions.PolarsError as error:  # the segment is removed meanwhile
        raise OSError(str(error)) from error


def _read_facts(directory: Path, segment: SegmentEntry) -> _Facts:
    import polars as pl  # noqa: PLC0415

    rows = [directory / file.path for file in segment.data if file.path.startswith(_ROWS) and file.rows]
    rejects = [directory / file.path for file in segment.data if file.path == _REJECTS and file.rows]
    times = pl.scan_parquet(rows).select(pl.col("received").dt.epoch("us")) if rows else None
    minutes = times.select((pl.col("received") // _MINUTE).unique()).collect()["received"] if times is not None else ()
    first = times.min().collect().item() if times is not None else 0
    counts = pl.read_parquet(rejects, columns=["reason"])["reason"].value_counts().iter_rows() if rejects else ()
    return _Facts(first or 0, frozenset(minute for minute in minutes if minute is not None), dict(counts))


def gaps_of(minutes: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the gaps between minutes with requests, in microseconds, longest first."""
    ordered = sorted(set(minutes))
    found = [
        ((before + 1) * _MINUTE, after * _MINUTE) for before, after in pairwise(ordered) if after - before > GAP_MINUTES
    ]
    return tuple(sorted(found, key=lambda gap: gap[0] - gap[1]))
