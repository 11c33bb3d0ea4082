"""Findings that are meant: what is accepted is counted and not alarmed about, until it expires."""

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
    """That a policy denies what is in a namespace and of a workload is meant; `*` and `?` stand for anything.

    `workload` is `Kind/name` of the owner; namespace `""` is what has none. The acceptance holds to the end of the day `expires`,
    for ever where that is None. `line` is where it is written.
    """

    policy: str
    namespace: str = "*"
    workload: str = "*"
    reason: str = ""
    expires: date | None = None
    line: int = 0

    def matches(self, policy: str, key: CellKey) -> bool:
        """Whether it speaks of a denial by a policy."""
        pairs = ((policy, self.policy), (key.namespace, self.namespace), (key.workload, self.workload))
        return all(fnmatchcase(text, pattern) for text, pattern in pairs)


class AcceptedEntry(NamedTuple):
    """An acceptance and what came of it: requests that it lets pass, or that it would if it had not expired."""

    entry: Acceptance
    requests: int
    expired: bool


class AcceptedFacts(Struct, frozen=True):
    """What a run says of accepted findings: requests in all, and of each entry; `path` is where they are written."""

    path: str = ""
    requests: int = 0
    entries: tuple[AcceptedEntry, ...] = ()

    @property
    def gone(self) -> tuple[AcceptedEntry, ...]:
        """What no longer occurs."""
        return tuple(each for each in self.entries if not each.requests)

    @property
    def expired(self) -> tuple[AcceptedEntry, ...]:
        """What alarms again."""
        return tuple(each for each in self.entries if each.expired and each.requests)


class AcceptanceLedger(Struct):
    """Acceptances, asked finding by finding on a day; it counts what each of them is good for."""

    path: str
    entries: Sequence[Acceptance]
    today: date
    requests: int = 0
    _counts: Counter[int] = field(default_factory=Counter)
    _answers: dict[CellKey, tuple[bool, tuple[int, ...]]] = field(default_factory=dict)

    def accepts(self, key: CellKey) -> bool:
        """Whether a request is newly denied by nothing but what is meant to deny it; counts it where it matters."""
        if key.outcome is not OutcomeKind.NEWLY_DENIED or not self.entries:
            return False
        accepts = self._answers.get(key)
        if accepts is None:
            accepts = self._answers[key] = self._asked(key)
        accepted, used = accepts
        self._counts.update(used)
        self.requests += accepted
        return accepted

    def _asked(self, key: CellKey) -> tuple[bool, tuple[int, ...]]:
        """Whether every policy that denies has an acceptance that holds, and which acceptances speak of it."""
        used: set[int] = set()
        holds = True
        for policy in key.policies:
            speaking = [number for number, each in enumerate(self.entries) if each.matches(policy, key)]
            valid = [number for number in speaking if not self._is_expired(self.entries[number])]
            used.update(valid[:1] or speaking[:1])
            holds = holds and bool(valid)
        return holds, tuple(sorted(used))

    def _is_expired(self, entry: Acceptance) -> bool:
        return entry.expires is not None and entry.expires < self.today

    def facts(self) -> AcceptedFacts:
        """What came of it."""
        entries = (
            AcceptedEntry(each, self._counts[number], self._is_expired(each))
            for number, each in enumerate(self.entries)
        )
        return AcceptedFacts(self.path, self.requests, tuple(entries))
