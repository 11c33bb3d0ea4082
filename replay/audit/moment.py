"""Plausible times of a log. A single event with a wrong time would move the end of the log.

No clock is used: the log itself shows when it was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

_SECOND = 1_000_000
EARLIEST = int(datetime(2017, 1, 1, tzinfo=UTC).timestamp()) * _SECOND
"""Earliest time in microseconds since the epoch. Version 1 of the audit API is of 2017."""
LATEST = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp()) * _SECOND
YEAR = 366 * 86_400 * _SECOND
"""Longest duration of a request, and longest silence of a log, in microseconds."""
_FEW = 100
"""A group of events counts if the largest group has at most so many times its events."""


def implausible_days(counts: Mapping[date, int]) -> list[date]:
    """Return the days that are more than a year from all others and have hardly any events.

    `counts` are the events by day. Two archives that are years apart are both kept, if both have more than a few
    events.
    """
    groups: list[list[date]] = []
    for day in sorted(counts):
        if groups and day - groups[-1][-1] <= timedelta(microseconds=YEAR):
            groups[-1].append(day)
        else:
            groups.append([day])
    sizes = [sum(counts[day] for day in group) for group in groups]
    most = max(sizes, default=0)
    return [day for group, size in zip(groups, sizes, strict=True) if size * _FEW < most for day in group]
