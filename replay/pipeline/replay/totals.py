"""What a run knows about a class of requests: the unit in which results are merged, and kept for the next run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct, field

from replay.compare.fidelity import Fidelity
from replay.compare.summary import Summary
from replay.kube.object_ref import ObjectRef
from replay.pipeline.replay.replayer import Pending


class Totals(Struct):
    """All that adds up; `barred` are the objects of writes that the candidate's authorizers refuse."""

    summary: Summary = field(default_factory=Summary)
    fidelity: Fidelity = field(default_factory=Fidelity)
    barred: list[ObjectRef] = field(default_factory=list)

    def add(self, other: Totals) -> None:
        """Add what another part of the log has of the same class."""
        self.summary.add(other.summary)
        self.fidelity.add(other.fidelity)
        self.barred += other.barred


class ClassResult(NamedTuple):
    """Totals, and the findings in the order of the log, read anew at each call."""

    totals: Totals
    findings: Callable[[], Iterator[Pending]]


NOTHING = ClassResult(Totals(), lambda: iter(()))
"""About a class whose requests came to nothing, as a `deletecollection` of no objects does."""
