"""Confidence that something does not happen, from the length of the log and the time of the last new event."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from replay.audit.period import Period

_DAY = 86_400 * 1_000_000
SHORT, LONG = 7 * _DAY, 30 * _DAY


class Confidence(StrEnum):
    """Level of confidence. The lower it is, the sooner something new may happen."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Doubt(NamedTuple):
    """A reason for a confidence of at most `most`, if it holds."""

    holds: bool
    most: Confidence
    reason: str


def confidence(period: Period, newest: int, new: str, doubts: Iterable[Doubt] = ()) -> Doubt:
    """Return the confidence, and the reason why it is not higher, which is empty for HIGH.

    HIGH: the period is at least 30 days, and its second half has nothing new. MEDIUM: the period is at least a week,
    and its last quarter has nothing new. `newest` is the time of the last new event, and `new` describes it. `doubts`
    are further reasons, specific to the question.
    """
    low, medium = Confidence.LOW, Confidence.MEDIUM
    listed = (
        Doubt(period.length < SHORT, low, "the log covers less than a week"),
        Doubt(newest >= period.end - period.length // 4, low, f"{new} in the last quarter of the log"),
        Doubt(period.length < LONG, medium, "the log covers less than 30 days"),
        Doubt(newest >= period.end - period.length // 2, medium, f"{new} in the second half of the log"),
        *doubts,
    )
    holding = [each for each in listed if each.holds]
    order = tuple(Confidence)
    return min(holding, key=lambda each: order.index(each.most), default=Doubt(False, Confidence.HIGH, ""))
