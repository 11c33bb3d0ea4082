"""Search for requests that two policies decide differently, and its state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from replay.prove.claim import UNBOUNDED, ClaimBound, Comparison, EnforcementLevel, Proof
from replay.prove.context import ProofContext
from replay.prove.request import SymbolicRequest

_KEPT = 200

DecidedRequest = tuple[SymbolicRequest, Sequence[EnforcementLevel | None]]
"""Request with the action of each side, None if undetermined."""


class WitnessSearch(Struct):
    """Differences found so far, one per direction, and the number of decided requests."""

    stricter: SymbolicRequest | None = None
    looser: SymbolicRequest | None = None
    decided: int = 0
    levels: set[tuple[EnforcementLevel, ...]] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        """Whether a difference in each direction was found."""
        return self.stricter is not None and self.looser is not None

    def take(
        self, request: SymbolicRequest, current: EnforcementLevel | None, candidate: EnforcementLevel | None
    ) -> None:
        """Add one decided request."""
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
    """Try `count` random requests, and changes of those that are allowed. `thorough` does not stop early."""
    search = search or WitnessSearch()
    for request, (current, candidate) in decided(context, count, seed):
        search.take(request, current, candidate)
        if search.is_complete and not thorough:
            break
    return search


def decided(context: ProofContext, count: int, seed: str) -> Iterator[DecidedRequest]:
    """Yield up to `count` random requests with the actions of all sides.

    Half of them are changes of requests that the first side allows. Each request is decided for all sides at once, so
    many candidates cost little more than one.
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
                # The new request replaces a random one, so that the few that are kept come from the whole run.
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


class Direction(Struct):
    """State of one direction: a request that shows it, or its exclusion, or the reason why it is open."""

    witness: SymbolicRequest | None = None
    is_excluded: bool = False
    reason: str = ""


class ProofState(Struct):
    """State of both directions, and the bound of the exclusions."""

    stricter: Direction = field(default_factory=Direction)
    looser: Direction = field(default_factory=Direction)
    bound: ClaimBound = UNBOUNDED

    def exclude(self, proofs: Iterable[Proof]) -> None:
        """Exclude a direction if all these claims exclude it."""
        claims = tuple(proofs)
        self.stricter.is_excluded = all(each.result in {Comparison.SAME, Comparison.LOOSER} for each in claims)
        self.looser.is_excluded = all(each.result in {Comparison.SAME, Comparison.STRICTER} for each in claims)
        for each in claims:
            self.bound = self.bound.merge(each.bound)

    def take(self, search: WitnessSearch) -> None:
        """Add what the search found. It overrides exclusions."""
        for direction, request in ((self.stricter, search.stricter), (self.looser, search.looser)):
            if request is not None and direction.witness is None:
                if direction.is_excluded:
                    direction.reason = "a request outside the bound shows it"
                direction.witness, direction.is_excluded = request, False

    def for_part(self) -> ProofState:
        """Return a state for a part of the requests. Findings stay."""
        return ProofState(replace(self.stricter), replace(self.looser), self.bound)

    def meet(self, parts: Sequence[ProofState]) -> None:
        """Combine the states of all parts. One part can show a difference. Only all parts together exclude it."""
        for each in parts:
            self.bound = self.bound.merge(each.bound)
        for mine, others in (
            (self.stricter, [each.stricter for each in parts]),
            (self.looser, [each.looser for each in parts]),
        ):
            mine.witness = mine.witness or next((each.witness for each in others if each.witness is not None), None)
            mine.reason = mine.reason or next((each.reason for each in others if each.reason), "")
            mine.is_excluded = mine.witness is None and all(each.is_excluded for each in others)

    def leave_open(self, reason: str) -> None:
        """Record why an open direction stays open. The first reason counts."""
        for direction in (self.stricter, self.looser):
            direction.reason = direction.reason or reason

    def may_be(self, comparisons: Collection[Comparison]) -> bool:
        """Return whether the claim can still be one of `comparisons`."""
        possible = set(Comparison)
        if self.stricter.witness is not None:
            possible -= {Comparison.SAME, Comparison.LOOSER}
        if self.looser.witness is not None:
            possible -= {Comparison.SAME, Comparison.STRICTER}
        return bool(possible.intersection(comparisons) - {Comparison.UNKNOWN})

    @property
    def is_open(self) -> bool:
        """Whether a direction is neither shown nor excluded."""
        return any(each.witness is None and not each.is_excluded for each in (self.stricter, self.looser))
