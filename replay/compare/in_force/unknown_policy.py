"""Policies that act in the log and that the baseline does not have."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from replay.audit.answer.observed import Observed
from replay.audit.event import RequestRecord


class UnknownPolicy(Struct):
    """Number of requests that show the policy, with the times of the first and the last (microseconds)."""

    requests: int = 0
    first: int = 0
    last: int = 0

    def add(self, other: UnknownPolicy) -> None:
        """Add the counts of another part of the log."""
        self.first = min(self.first, other.first) if self.requests else other.first
        self.last = max(self.last, other.last)
        self.requests += other.requests


def note_unknown_policies(
    unknown_policies: dict[str, UnknownPolicy], record: RequestRecord, observed: Observed, policies: frozenset[str]
) -> None:
    """Count the policies of one request that are not in the set."""
    for policy in set(_policies(observed)) - policies:
        unknown_policies.setdefault(policy, UnknownPolicy()).add(UnknownPolicy(1, record.received, record.received))


def _policies(observed: Observed) -> Iterator[str]:
    if observed.denial is not None and not observed.denial.webhook:
        yield observed.denial.policy
    for entry in observed.failures:
        yield str(entry.get("policy"))
