"""The search for requests about which two policies decide differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from replay.prove.claim import EnforcementLevel
from replay.prove.context import ProofContext
from replay.prove.request import SymbolicRequest

_KEPT = 200

DecidedRequest = tuple[SymbolicRequest, Sequence[EnforcementLevel | None]]
"""A request, and what each side of a context does with it; None where that is not known."""


class WitnessSearch(Struct):
    """The differences that a search has met so far, one in each direction, and how many requests it decided."""

    stricter: SymbolicRequest | None = None
    looser: SymbolicRequest | None = None
    decided: int = 0
    levels: set[tuple[EnforcementLevel, ...]] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        """Whether there is one in each direction."""
        return self.stricter is not None and self.looser is not None

    def take(
        self, request: SymbolicRequest, current: EnforcementLevel | None, candidate: EnforcementLevel | None
    ) -> None:
        """Look at one decided request."""
        if current is None or candidate is None:
            return
        self.decided += 1
        self.levels.add((current, candidate))
        if candidate > current and self.stricter is None:
            self.stricter = request
        elif candidate < current and self.looser is None:
            self.looser = request


def hunt(
    context: ProofContext, count: int, seed: str, search: WitnessSearch | None = None, *, thorough: bool = False
) -> WitnessSearch:
    """Try `count` random requests, and changes of those that neither side refuses; `thorough`: do not stop early."""
    search = search or WitnessSearch()
    for request, (current, candidate) in decided(context, count, seed):
        search.take(request, current, candidate)
        if search.is_complete and not thorough:
            break
    return search


def decided(context: ProofContext, count: int, seed: str) -> Iterator[DecidedRequest]:
    """Up to `count` random requests with what all sides of a context do; half of them are changes of what the first admitted.

    Every request is decided for all sides at once, so that many candidates cost little more than one.
    """
    if not context.targets:
        return
    generator = context.generator(seed)
    chooser = generator.chooser
    passed: list[SymbolicRequest] = []
    for request in generator.requests(count // 2):
        levels = context.judge.levels(request)
        yield request, levels
        if levels[0] is EnforcementLevel.ADMITTED:
            passed.append(request)
            if len(passed) > _KEPT:
                passed[chooser.randrange(len(passed))] = passed.pop()
    for _ in range(count - count // 2):
        if not passed:
            return
        variation = generator.varied(chooser.choice(passed), 1 + chooser.randrange(2))
        if variation is not None:
            levels = context.judge.levels(variation)
            yield variation, levels
            if levels[0] is EnforcementLevel.ADMITTED:
                passed[chooser.randrange(len(passed))] = variation
