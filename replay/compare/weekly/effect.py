"""Effects of single policies over time: the mergeable cells of the weekly report.

A `Summary` counts differences between two sets. An effect is what one policy of one set does by itself. A policy that
only audits has effects, but makes no difference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import orjson
from msgspec import Struct, field

from replay.admission.decision import Decision
from replay.audit.answer.observed import VALIDATION_FAILURE

_WARNING = re.compile(
    r"Validation failed for ValidatingAdmissionPolicy '([^']*)' with binding '[^']*': (.*)", re.DOTALL
)


class EffectSide(StrEnum):
    """The set of an effect."""

    CURRENT = "current"
    CANDIDATE = "candidate"


class EffectAction(StrEnum):
    """Action of a policy or webhook. `failed-open` means that the failure of a webhook was ignored."""

    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"
    MUTATE = "mutate"
    FAILED_OPEN = "failed-open"
    ANNOTATE = "annotate"
    UNDETERMINED = "undetermined"


class PolicyEffect(NamedTuple):
    """Effect of one policy on one request. `message` is the first if there are several."""

    action: EffectAction
    policy: str
    message: str


class EffectKey(NamedTuple):
    """Key of a cell: what its effects have in common.

    `period` is the index of the requested period. `denied` says that the baseline denies the request anyway. `follows`
    marks a consequence: the verdict changes only because an earlier request would end otherwise. `owner` is the value
    of the namespace's owner label, or empty. `workspace` is the path of the request's kcp workspace. It then precedes
    the namespace, and the policy's name has the path of its own.
    """

    period: int
    side: EffectSide
    action: EffectAction
    policy: str
    user: str
    namespace: str
    resource: str
    workload: str
    denied: bool
    owner: str
    workspace: str = ""
    follows: bool = False

    @property
    def is_root(self) -> bool:
        """Whether enforcement would begin here: the baseline admits the request, and it is a direct finding."""
        return not self.denied and not self.follows


class EffectCell(Struct):
    """Number of requests, with the first and last time (microseconds since the epoch), and the first message."""

    count: int
    first: int
    last: int
    audit_id: str
    message: str

    def add(self, other: EffectCell) -> None:
        """Add the counts of another part of the log."""
        self.count += other.count
        self.last = max(self.last, other.last)
        if (other.first, other.audit_id) < (self.first, self.audit_id):
            self.first, self.audit_id, self.message = other.first, other.audit_id, other.message


class Bucket(NamedTuple):
    """Key of a time series. `start` is in microseconds, and `is_root` is as in `EffectKey`."""

    period: int
    side: EffectSide
    action: EffectAction
    policy: str
    is_root: bool
    start: int


class EffectCounts(Struct):
    """Effects counted by cell and over time. Merging is commutative."""

    cells: dict[EffectKey, EffectCell] = field(default_factory=dict)
    timeline: Counter[Bucket] = field(default_factory=Counter)

    def count(self, key: EffectKey, cell: EffectCell, start: int) -> None:
        """Count one request."""
        self._merge(key, cell)
        self.timeline[Bucket(key.period, key.side, key.action, key.policy, key.is_root, start)] += cell.count

    def add(self, other: EffectCounts) -> None:
        """Add the counts of another part of the log."""
        for key, cell in other.cells.items():
            self._merge(key, cell)
        self.timeline.update(other.timeline)

    def _merge(self, key: EffectKey, cell: EffectCell) -> None:
        cell_so_far = self.cells.get(key)
        if cell_so_far is None:
            self.cells[key] = cell
        else:
            cell_so_far.add(cell)


def effects_of(decision: Decision) -> Iterator[PolicyEffect]:
    """Yield the effects of a decision in the server's order, each once for a policy."""
    messages: dict[tuple[EffectAction, str], str] = {}
    for denial in decision.denials:
        messages.setdefault((EffectAction.DENY, denial.policy), denial.message)
    for warning in decision.warnings:
        # apiserver (validating dispatcher) names the policy of a warning in its text alone.
        if match := _WARNING.fullmatch(warning):
            messages.setdefault((EffectAction.WARN, match[1]), match[2])
    if text := decision.audit_annotations.get(VALIDATION_FAILURE):
        for entry in orjson.loads(text):
            messages.setdefault((EffectAction.AUDIT, entry["policy"]), entry["message"])
    for mutated in decision.mutated:
        messages.setdefault((EffectAction.MUTATE, mutated.policy), "")
    for unknown in decision.undetermined:
        messages.setdefault((EffectAction.UNDETERMINED, unknown.policy), unknown.reason)
    for (action, policy), message in messages.items():
        yield PolicyEffect(action, policy, message)
