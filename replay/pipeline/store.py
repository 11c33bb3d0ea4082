"""`replay ingest` and `replay store prune`: fill a store, and remove its oldest ingests.

Sizes are texts such as `50GB`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from replay.audit.catalog import SegmentEntry
from replay.audit.directory import prune_store, segments_to_keep
from replay.audit.ingest import Progress, implausible_days
from replay.audit.reject import write_rejects
from replay.audit.segment import IngestReport
from replay.audit.store import Store, require_store
from replay.errors import ReplayError, StoreError
from replay.pipeline.log import ingested
from replay.pipeline.options import instant
from replay.pipeline.replay.kept_result import forget
from replay.pipeline.replay.workers import Fleet
from replay.pipeline.scenario import Scenario
from replay.storage.location import cluster_location, cluster_names, opened

_SIZE = re.compile(r"(\d+)\s*(k|M|G|T)?B", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def octets(text: str) -> int:
    """Return the bytes of a text such as `256MB`. Raise ReplayError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ReplayError(f"no size `{text}`: write 500MB, 50GB, 2TB")
    return int(match[1]) * _UNITS[(match[2] or "").lower()]


_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Pruned(NamedTuple):
    """The numbers of removed and of remaining ingests, and the number of remaining requests."""

    removed: int
    left: int
    requests: int


def fill(
    scenario: Scenario, rejects: Path | None, progress: Progress, fleet: Fleet | None = None
) -> tuple[IngestReport, int]:
    """Ingest a scenario's logs into its store, which is created if needed.

    Return what was read, and the store's number of requests. Unused lines go to `rejects`. On ReplayError the store is
    unchanged.
    """
    with Store.open(scenario.store) as store:
        report = ingested(store, scenario, progress, fleet)
        if rejects is not None:
            write_rejects(store.rejects(), rejects)
        return report, store.requests


@dataclass(frozen=True)
class Retention:
    """The limits of a store: ingests from an instant on, or within a duration such as `30d`, and a size such as `50GB`.

    Durations count back from the last request of the store, not from now, so the same store gives the same result. They
    do not count from a small ingest a year or more after all others, whose clock was wrong. An instant in `start` has
    no such doubt.
    """

    start: str = ""
    keep: str = ""
    size: str = ""

    def __post_init__(self) -> None:
        """Raise ReplayError for unclear values."""
        if self.start and self.keep:
            raise ReplayError("what to forget is not clear: give either --before or --keep")
        self.octets()
        self.begin(())

    def begin(self, segments: Sequence[SegmentEntry]) -> int:
        """Return the instant in microseconds before which ingests are removed. 0 removes none."""
        limit = self.start or self.keep
        return (instant(limit, _last(segments), UTC) - _EPOCH) // _MICROSECOND if limit else 0

    def octets(self) -> int | None:
        """Return the greatest number of bytes to keep, or None."""
        return octets(self.size) if self.size else None

    def forgets(self, segments: Sequence[SegmentEntry]) -> bool:
        """Return whether some of these ingests are not to be kept."""
        return len(segments_to_keep(segments, self.begin(segments), self.octets())) < len(segments)


def prune(location: Path | str, retention: Retention) -> Pruned:
    """Remove the ingests that retention does not keep. Raise StoreError if there is no store, or if it is in use."""
    require_store(location)
    with Store.open(location) as store:
        begin = retention.begin(store.segments)
    with ExitStack() as stack:
        storage = opened(location, stack)
        removed = prune_store(storage, begin, retention.octets())
        if removed:
            forget(storage)
    with Store.open(location) as store:
        return Pruned(removed, len(store.segments), store.requests)


def _last(segments: Sequence[SegmentEntry]) -> datetime:
    """Return the time of the last request of a store, by the ingests that hold nearly all of it."""
    ends = [(_EPOCH + segment.last * _MICROSECOND, segment.requests) for segment in segments]
    counts: Counter[date] = Counter()
    for end, requests in ends:
        counts[end.date()] += requests
    left_out = implausible_days(counts)
    return max((end for end, _ in ends if end.date() not in left_out), default=_EPOCH)


def partition(store: str, cluster_name: str | None) -> str:
    """Return the place of a cluster's logs. Raise `StoreError` for a store that mixes logs with and without names."""
    if cluster_name is None:
        if not Store.is_at(store) and (names := cluster_names(store)):
            raise StoreError(
                f"it has the clusters {', '.join(names)}: say of which one with --cluster-name", path=store
            )
        return store
    if Store.is_at(store):
        raise StoreError("it was filled without --cluster-name: name another store", path=store)
    return cluster_location(store, cluster_name)
