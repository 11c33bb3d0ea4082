"""Requests of API servers whose clocks differ.

A time of the log is then known but for an error. Every request is taken to have run somewhere within its interval widened
by that error: what is said to be before or after something else still is, and what is no longer certain is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replay.audit.event import RequestRecord
from replay.identity import IdentityMap
from replay.reconstruct.history.clock import BEFORE
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.request import Reached, ReplayRequest

MOST_TRUSTED = 4_000_000
"""Microseconds: histories are read with the writes of five seconds more, and beyond that are not complete."""
_MARGIN = 20_000


def clock_error(apart: int) -> int:
    """The error to allow for where clocks differ by so many microseconds at least: how much more depends on how busy it was."""
    return 2 * apart + _MARGIN if apart > 0 else 0


def widened(record: RequestRecord, error: int) -> RequestRecord:
    """The record as it may have been timed by another clock."""
    return record._replace(received=record.received - error, stage_time=record.stage_time + error) if error else record


def widened_samples(samples: Iterable[tuple[int, int, int]], error: int) -> tuple[tuple[int, int, int], ...]:
    """Samples of a `RevisionClock` with the same allowance."""
    return tuple(
        (revision, start if start == BEFORE else start - error, end + error) for revision, start, end in samples
    )


class TolerantReconstructor(Reconstructor, frozen=True):
    """Rebuilds requests as if each had run somewhere within its widened interval; records keep their own times."""

    error: int = 0

    def requests(self, records: Sequence[RequestRecord]) -> Iterator[ReplayRequest]:
        """See `Reconstructor.requests`."""
        wider = [widened(record, self.error) for record in records]
        own = IdentityMap(zip(wider, records, strict=True))
        for request in super().requests(wider):
            request.record = own[request.record]
            if (
                request.reached is Reached.FAILED_BEFORE
                and request.record.verb == "delete"
                and request.record.code == 200
            ):
                # Of several deletions that answer with the same version the first by time asked the policies.
                request.reached = Reached.UNKNOWN
                request.reached_reason = "another deletion answered alike, and clocks do not tell which was first"
            yield request
