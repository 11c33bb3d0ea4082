"""Which times a log can have: an event of another one, be it one in a million, would move the end of the log away from all others.

No clock is asked: the log itself tells when it was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

_SECOND = 1_000_000
EARLIEST = int(datetime(2017, 1, 1, tzinfo=UTC).timestamp()) * _SECOND
"""Microseconds since the epoch: version 1 of the audit API is of 2017."""
LATEST = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp()) * _SECOND
YEAR = 366 * 86_400 * _SECOND
"""The longest a request may take, and a log be silent, in microseconds."""
_FEW = 100
"""A group of events is one of the log's if it has at least one for so many of the largest group."""


def implausible_days(counts: Mapping[date, int]) -> list[date]:
    """The days that are more than a year from all others and have hardly any events, of days with how many they have.

    Two archives years apart are both kept, whatever the gap between them, as long as both are more than a few events.
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
