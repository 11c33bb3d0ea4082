"""Accepted findings: intended denials, which are counted separately until they expire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec import Struct, field

from replay.compare.outcome import OutcomeKind
from replay.compare.summary import CellKey


class Acceptance(Struct, frozen=True):
    """Acceptance of the denials of a policy in a namespace and of a workload. `*` and `?` are wildcards.

    `workload` is `Kind/name` of the owner. The namespace `""` means cluster-scoped. The acceptance holds until the end
    of the day `expires`, or forever if that is None. `line` is its line in the file.
    """

    policy: str
    namespace: str = "*"
    workload: str = "*"
    reason: str = ""
    expires: date | None = None
    line: int = 0

    def matches(self, policy: str, key: CellKey) -> bool:
        """Return whether the acceptance is about a policy's denial."""
        pairs = ((policy, self.policy), (key.namespace, self.namespace), (key.workload, self.workload))
        return all(fnmatchcase(text, pattern) for text, pattern in pairs)


class AcceptedEntry(NamedTuple):
    """An acceptance with the number of requests that it accepts, or would accept if it had not expired."""

    entry: Acceptance
    requests: int
    expired: bool


class AcceptedFacts(Struct, frozen=True):
    """The accepted findings of a run: all requests, and those of each entry. `path` is the file of entries."""

    path: str = ""
    requests: int = 0
    entries: tuple[AcceptedEntry, ...] = ()

    @property
    def gone(self) -> tuple[AcceptedEntry, ...]:
        """Entries that match nothing any more."""
        return tuple(each for each in self.entries if not each.requests)

    @property
    def expired(self) -> tuple[AcceptedEntry, ...]:
        """Entries that have expired and still match requests."""
        return tuple(each for each in self.entries if each.expired and each.requests)


class AcceptanceLedger(Struct):
    """The acceptances on a given day, with the number of findings that each accepts."""

    path: str
    entries: Sequence[Acceptance]
    today: date
    requests: int = 0
    _counts: Counter[int] = field(default_factory=Counter)
    _answers: dict[CellKey, tuple[bool, tuple[int, ...]]] = field(default_factory=dict)

    def accepts(self, key: CellKey) -> bool:
        """Return whether every policy that newly denies a request is accepted. If so, count the request."""
        if key.outcome is not OutcomeKind.NEWLY_DENIED or not self.entries:
            return False
        accepts = self._answers.get(key)
        if accepts is None:
            accepts = self._answers[key] = self._acceptances_of(key)
        accepted, used = accepts
        self._counts.update(used)
        self.requests += accepted
        return accepted

    def _acceptances_of(self, key: CellKey) -> tuple[bool, tuple[int, ...]]:
        """Return whether every denying policy has a valid acceptance, and the indices of the acceptances that match."""
        used: set[int] = set()
        holds = True
        for policy in key.policies:
            speaking = [number for number, each in enumerate(self.entries) if each.matches(policy, key)]
            valid = [number for number in speaking if not self._is_expired(self.entries[number])]
            # An expired acceptance counts only if no valid one matches, so that the report shows what it no longer
            # covers.
            used.update(valid[:1] or speaking[:1])
            holds = holds and bool(valid)
        return holds, tuple(sorted(used))

    def _is_expired(self, entry: Acceptance) -> bool:
        return entry.expires is not None and entry.expires < self.today

    def facts(self) -> AcceptedFacts:
        """Return the counts."""
        entries = (
            AcceptedEntry(each, self._counts[number], self._is_expired(each))
            for number, each in enumerate(self.entries)
        )
        return AcceptedFacts(self.path, self.requests, tuple(entries))
