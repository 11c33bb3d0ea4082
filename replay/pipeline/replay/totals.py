"""Results for a class of requests, which is the unit of merging and of kept results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import field

from replay.compare.fidelity import Fidelity
from replay.compare.summary import Summary
from replay.compare.tally import Tally
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.replayer import Pending


class Totals(Tally):
    """The results that can be added up."""

    summary: Summary = field(default_factory=Summary)
    fidelity: Fidelity = field(default_factory=Fidelity)


class ClassPiece(NamedTuple):
    """The results of a part for a class: totals, and offsets of the rest in its file.

    At `begins` is a `Divergence`. From `findings` on are chunks of findings that end with an empty one.
    """

    totals: Totals
    begins: int
    findings: int


class ClassResult(NamedTuple):
    """The results for a class: totals, findings in log order, and the places where the candidate diverges.

    Findings and divergence are read again at each call.
    """

    totals: Totals
    findings: Callable[[], Iterator[Pending]]
    begins: Callable[[], Divergence]


NOTHING = ClassResult(Totals(), lambda: iter(()), Divergence)
"""The result of a class without any outcome, such as a `deletecollection` of no objects."""
