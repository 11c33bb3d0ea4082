"""How sure a conclusion from a log is that something does not happen: by how long the log is, and when something new came last."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from replay.audit.period import Period

_DAY = 86_400 * 1_000_000
SHORT, LONG = 7 * _DAY, 30 * _DAY


class Confidence(StrEnum):
    """The less, the sooner something else may happen."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Doubt(NamedTuple):
    """A reason not to be surer than `most`, if it holds."""

    holds: bool
    most: Confidence
    reason: str


def confidence(period: Period, newest: int, new: str, doubts: Iterable[Doubt] = ()) -> Doubt:
    """The confidence and the reason why it is not higher, which is empty for HIGH.

    HIGH: the period is 30 days or longer, and nothing new came in its second half. MEDIUM: it is a week or longer, and nothing new came
    in its last quarter. `newest` is when something new came last, and `new` says what; `doubts` are those of the question.
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
