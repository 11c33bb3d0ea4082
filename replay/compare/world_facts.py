"""Counts of predicted outcomes, for a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, field

from replay.world.result import Cause, Consequence

_NOT_FAILING = (Cause.SUCCEEDS, Cause.UNKNOWN)


class WorldFacts(Struct):
    """Counts of requests that end otherwise than in the log.

    `roots` end so independently, `consequences` because of another request. `failing` are the consequences that
    certainly fail. `not_sent` are requests of controllers that would have no reason, and no other number includes them.
    `ends` counts roots and consequences by cause. `retried` counts owners for which a controller repeats a refused
    creation, and `refused` the refusals in all, as far as the pauses of the controller tell. `refused_in_log` counts
    those that the log has too.
    """

    roots: int = 0
    consequences: int = 0
    failing: int = 0
    not_sent: int = 0
    unknown: int = 0
    retried: int = 0
    refused: int = 0
    refused_in_log: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def of(consequences: Iterable[Consequence], retries: Sequence[int] = (), still: Collection[int] = ()) -> WorldFacts:
        """Count the consequences of a run.

        `retries` has the number of refusals of each owner that exists only in the candidate's world, `still` that of
        each owner that the log already shows as refused.
        """
        facts = WorldFacts(
            retried=len(retries) + len(still), refused=sum(retries) + sum(still), refused_in_log=sum(still)
        )
        for each in consequences:
            facts.retried += bool(each.repetitions)
            facts.refused += each.repetitions
            if not each.differs:
                continue
            if each.result.cause == Cause.NOT_SENT:
                facts.not_sent += 1
                continue
            facts.roots += each.root
            facts.consequences += not each.root
            facts.failing += not each.root and each.result.cause not in _NOT_FAILING
            facts.unknown += each.result.cause == Cause.UNKNOWN
            facts.ends[str(each.result.cause)] += 1
        return facts
