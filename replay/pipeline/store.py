"""What `replay ingest` and `replay store prune` do: fill a store, forget its oldest ingests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from replay.audit.catalog import SegmentEntry
from replay.audit.directory.prune import prune_store
from replay.audit.info import require_store
from replay.audit.ingest import Progress
from replay.audit.moment import implausible_days
from replay.audit.reject import write_rejects
from replay.audit.store import IngestReport, Store
from replay.errors import ReplayError
from replay.pipeline.period import instant
from replay.pipeline.replay.kept import forget
from replay.pipeline.scenario import Scenario

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Pruned(NamedTuple):
    """How many ingests were removed, how many are left, and the requests that these hold."""

    removed: int
    kept: int
    requests: int


def fill(scenario: Scenario, rejects: Path | None, progress: Progress) -> tuple[IngestReport, int]:
    """Ingest the logs of a scenario into its store, which is made if it is not there.

    The result is what was read, and how many requests the store holds now. `rejects` is where every line that is not used is written. Raises ReplayError; the store is then as it was.
    """
    with Store.open(scenario.store) as store:
        report = store.ingest(scenario.logs, progress, scenario.formats)
        if rejects is not None:
            write_rejects(store.rejects(), rejects)
        return report, store.requests


def prune(directory: Path, before: str, keep: str) -> Pruned:
    """Forget the ingests that ended before an instant, or that are older than a length of time such as `30d`.

    Lengths count back from the last request of the store, not from now: the same store gives the same answer. A small ingest
    that is a year and more after all others is not counted from: its clock was wrong, or --before says what is meant. Raises
    ReplayError unless exactly one of the two is given, StoreError if another process uses the store.
    """
    if bool(before) == bool(keep):
        raise ReplayError("what to forget is not clear: give either --before or --keep")
    require_store(directory)
    with Store.open(directory) as store:
        last = _last(store.segments)
    limit = instant(before or keep, last, UTC)
    removed = prune_store(directory, (limit - _EPOCH) // _MICROSECOND)
    if removed:
        forget(directory)
    with Store.open(directory) as store:
        return Pruned(removed, len(store.segments), store.requests)


def _last(segments: Sequence[SegmentEntry]) -> datetime:
    """The time of the last request of a store, by those ingests that hold nearly all of it."""
    ends = [(_EPOCH + segment.last * _MICROSECOND, segment.requests) for segment in segments]
    counts: Counter[date] = Counter()
    for end, requests in ends:
        counts[end.date()] += requests
    left_out = implausible_days(counts)
    return max((end for end, _ in ends if end.date() not in left_out), default=_EPOCH)
