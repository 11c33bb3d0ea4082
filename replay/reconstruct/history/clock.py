"""When a revision was stored: `resourceVersion` is etcd's revision, one counter for all objects of a cluster."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

BEFORE = -1
"""Before everything in the log."""
NEVER = 1 << 62
"""After everything in the log."""


class RevisionClock:
    """Bounds, in microseconds since the epoch, of the instant at which a revision was stored."""

    def __init__(self, samples: Iterable[tuple[int, int, int]]) -> None:
        """`samples` are `(revision, received, stage time)` of writes; each was stored between its two times.

        A write that changes nothing answers with a revision that is older than itself: samples that come after a higher
        revision was complete are left out.
        """
        ordered = sorted(_in_time(set(samples)))
        self._revisions = [revision for revision, _, _ in ordered]
        self._latest_start = list(accumulate((start for _, start, _ in ordered), max))
        self._earliest_end = list(accumulate((end for _, _, end in reversed(ordered)), min))[::-1]

    def bounds(self, revision: int) -> tuple[int, int]:
        """After which and before which instant a revision was stored; `BEFORE` and `NEVER` where the log ends."""
        place = bisect_left(self._revisions, revision)
        start = self._latest_start[place - 1] if place else BEFORE
        if place < len(self._revisions) and self._revisions[place] == revision:
            place += 1
        end = self._earliest_end[place] if place < len(self._earliest_end) else NEVER
        return start, end


def _in_time(samples: set[tuple[int, int, int]]) -> Iterable[tuple[int, int, int]]:
    """The samples whose revision was not surpassed before they began."""
    ends = sorted((end, revision) for revision, _, end in samples)
    highest, place = 0, 0
    for revision, start, end in sorted(samples, key=lambda sample: sample[1]):
        while place < len(ends) and ends[place][0] <= start:
            highest = max(highest, ends[place][1])
            place += 1
        if revision >= highest:
            yield revision, start, end
