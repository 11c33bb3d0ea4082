"""Results about a class of requests: the unit of merging and of kept results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct, field

from replay.compare.fidelity import Fidelity
from replay.compare.summary import Summary
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.replayer import Pending


class Totals(Struct):
    """Everything that adds up."""

    summary: Summary = field(default_factory=Summary)
    fidelity: Fidelity = field(default_factory=Fidelity)

    def add(self, other: Totals) -> None:
        """Add what another part of the log has of the same class."""
        self.summary.add(other.summary)
        self.fidelity.add(other.fidelity)


class ClassPiece(NamedTuple):
    """What a part has of a class of requests: numbers to add up, and from where on its file has the rest.

    There are at `begins` a `Beginning`, and from `findings` on chunks of findings, which end with an empty one.
    """

    totals: Totals
    begins: int
    findings: int


class ClassResult(NamedTuple):
    """Totals, and the findings in the order of the log and where the candidate's world begins, both read anew at each call."""

    totals: Totals
    findings: Callable[[], Iterator[Pending]]
    begins: Callable[[], Divergence]


NOTHING = ClassResult(Totals(), lambda: iter(()), Divergence)
"""About a class whose requests came to nothing, as a `deletecollection` of no objects does."""
