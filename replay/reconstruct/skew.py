"""Requests of API servers whose clocks differ.

Then each time in the log may be wrong by up to an error. Every request counts as having run somewhere within its
interval, widened by that error. A reported order still holds. An order that is no longer certain is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replay.audit.event import RequestRecord
from replay.identity import IdentityMap
from replay.reconstruct.history.clock import BEFORE
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.request import Reached, ReplayRequest

MOST_TRUSTED = 4_000_000
"""Largest error in microseconds for which histories are trusted: they are read with five more seconds of writes."""
_MARGIN = 20_000


def clock_error(apart: int) -> int:
    """Return the error to allow for clocks that differ by at least `apart` microseconds.

    How much more they differ depends on the load.
    """
    return 2 * apart + _MARGIN if apart > 0 else 0


def widened(record: RequestRecord, error: int) -> RequestRecord:
    """Return a record with its interval widened by a clock error."""
    return record._replace(received=record.received - error, stage_time=record.stage_time + error) if error else record


def widened_samples(samples: Iterable[tuple[int, int, int]], error: int) -> tuple[tuple[int, int, int], ...]:
    """Return samples of a `RevisionClock` widened by a clock error."""
    return tuple(
        (revision, start if start == BEFORE else start - error, end + error) for revision, start, end in samples
    )


class TolerantReconstructor(Reconstructor, frozen=True):
    """Rebuilds requests as if each had run somewhere within its widened interval. Records keep their own times."""

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
                # Of several deletions with the same version in the response, policies ran only for the first. The order
                # is unknown here.
                request.reached = Reached.UNKNOWN
                request.reached_reason = (
                    "two deletions have the same response, and the clocks do not show which came first"
                )
            yield request
