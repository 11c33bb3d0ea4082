"""Time at which a revision was stored.

`resourceVersion` is the revision of etcd: one counter for all objects of a cluster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

BEFORE = -1
"""Time before everything in the log."""
NEVER = 1 << 62
"""Time after everything in the log."""


class RevisionClock:
    """Finds the earliest and latest time at which a revision was stored, in microseconds since the epoch."""

    def __init__(self, samples: Iterable[tuple[int, int, int]]) -> None:
        """Keep the samples, which are `(revision, received, stage time)` of writes.

        Each was stored between its two times.

        A write that changes nothing answers with an older revision. A sample is dropped if a higher revision was
        complete before it began.
        """
        ordered = sorted(_in_time(set(samples)))
        self._revisions = [revision for revision, _, _ in ordered]
        # Revisions rise with time: the start of a sample bounds all later revisions, its end all earlier ones.
        self._latest_start = list(accumulate((start for _, start, _ in ordered), max))
        self._earliest_end = list(accumulate((end for _, _, end in reversed(ordered)), min))[::-1]

    def bounds(self, revision: int) -> tuple[int, int]:
        """Return the times after and before which a revision was stored.

        They are `BEFORE` or `NEVER` beyond the ends of the log.
        """
        place = bisect_left(self._revisions, revision)
        start = self._latest_start[place - 1] if place else BEFORE
        if place < len(self._revisions) and self._revisions[place] == revision:
            place += 1
        end = self._earliest_end[place] if place < len(self._earliest_end) else NEVER
        return start, end


def _in_time(samples: set[tuple[int, int, int]]) -> Iterable[tuple[int, int, int]]:
    """Yield the samples whose revision had not been surpassed when they began."""
    ends = sorted((end, revision) for revision, _, end in samples)
    highest, place = 0, 0
    for revision, start, end in sorted(samples, key=lambda sample: sample[1]):
        while place < len(ends) and ends[place][0] <= start:
            highest = max(highest, ends[place][1])
            place += 1
        if revision >= highest:
            yield revision, start, end
