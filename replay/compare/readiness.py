"""Strictest Pod Security level, quotas and limits of a namespace that would have admitted all its pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from replay.admission.builtin.pod.resources import raise_to
from replay.audit.period import Period
from replay.kube.quantity import Quantity

# Confidence that something does not happen, from the length of the log and the time of the last new event.

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


LEVELS = ("baseline", "restricted")
"""Levels that can deny pods, from the laxer to the stricter."""
PRIVILEGED = "privileged"

ObstacleKey = tuple[str, str, str]
"""A workload, the violation of its pods, and its place."""


class NamespaceReadiness(Struct):
    """Pods that were created in a namespace. Refused pods do not count.

    `obstacles` are by level. `unknown` counts pods of which too little is known. `most` has the largest requests and
    limits of a container, by kind and resource. `steps` are the arrivals and departures of requested resources, with
    the time in microseconds.
    """

    pods: int = 0
    unknown: int = 0
    obstacles: dict[str, Counter[ObstacleKey]] = field(default_factory=dict)
    denied: Counter[str] = field(default_factory=Counter)
    """Number of pods that each level would have denied."""
    most: dict[str, dict[str, Quantity]] = field(default_factory=dict)
    steps: list[tuple[int, str, int, dict[str, Quantity]]] = field(default_factory=list)
    """Time, pod, arrival (1) or departure (-1), and requested resources."""

    @property
    def level(self) -> str:
        """The strictest level that would have denied no pod."""
        passed = PRIVILEGED
        for level in LEVELS:
            if self.denied[level] or self.unknown:
                break
            passed = level
        return passed

    @property
    def next_level(self) -> str:
        """The next stricter level, or empty if there is none."""
        strictness = (PRIVILEGED, *LEVELS)
        place = strictness.index(self.level) + 1
        return strictness[place] if place < len(strictness) else ""

    def add(self, other: NamespaceReadiness) -> None:
        """Add the counts of another part of the log."""
        self.pods += other.pods
        self.unknown += other.unknown
        self.denied.update(other.denied)
        for level, counts in other.obstacles.items():
            self.obstacles.setdefault(level, Counter()).update(counts)
        for kind, amounts in other.most.items():
            raise_to(self.most.setdefault(kind, {}), amounts)
        self.steps += other.steps

    def peak(self) -> dict[str, Quantity]:
        """Return the largest simultaneous requests of pods in the log, with the number of pods as `pods`."""
        there: dict[str, dict[str, Quantity]] = {}
        used: dict[str, Quantity] = {}
        most: dict[str, Quantity] = {}
        # The amounts are left out of the key, because maps have no order.
        for _, pod, comes, amounts in sorted(self.steps, key=lambda step: step[:3]):
            own = {**amounts, "pods": Quantity(1, text="1")} if comes > 0 else there.pop(pod, {})
            if comes > 0 and pod not in there:
                there[pod] = own
                used = {name: _sum(used.get(name), own.get(name)) for name in {*used, *own}}
            elif comes < 0:
                used = {name: value.subtract(own[name]) if name in own else value for name, value in used.items()}
            raise_to(most, used)
        return most


def _sum(one: Quantity | None, other: Quantity | None) -> Quantity:
    if one is None or other is None:
        total = one or other
        assert total is not None
        return total
    return one.add(other)
