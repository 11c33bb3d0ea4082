"""Agreement of a second CEL engine with ours, as counts."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from msgspec import Struct, field


class EngineDisagreement(NamedTuple):
    """One disagreement. `ours` and `theirs` are `true`, `false` or `error`."""

    audit_id: str
    policy: str
    expression: str
    ours: str
    theirs: str


class EngineAgreement(Struct):
    """Counts of evaluations: equal ones, and those that cel-python does not support or is known to do differently."""

    agreed: int = 0
    unsupported: Counter[str] = field(default_factory=Counter)
    habits: Counter[str] = field(default_factory=Counter)
    differing: list[EngineDisagreement] = field(default_factory=list)

    def add(self, other: EngineAgreement) -> None:
        """Add the counts of another part of the log."""
        self.agreed += other.agreed
        self.unsupported.update(other.unsupported)
        self.habits.update(other.habits)
        self.differing = sorted([*self.differing, *other.differing])

    @property
    def count(self) -> int:
        """Number of evaluations."""
        return self.agreed + self.unsupported.total() + self.habits.total() + len(self.differing)
