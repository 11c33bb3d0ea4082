"""State of a proof in both directions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from replay.prove.claim import UNBOUNDED, ClaimBound, Comparison, Proof
from replay.prove.request import SymbolicRequest
from replay.prove.search.hunt import WitnessSearch


class Direction(Struct):
    """State of one direction: a request that shows it, or that there is none, or why it is not known."""

    witness: SymbolicRequest | None = None
    is_excluded: bool = False
    reason: str = ""


class ProofState(Struct):
    """Both directions, and the bounds of what is excluded."""

    stricter: Direction = field(default_factory=Direction)
    looser: Direction = field(default_factory=Direction)
    bound: ClaimBound = UNBOUNDED

    def exclude(self, proofs: Iterable[Proof]) -> None:
        """Exclude what all of these claims exclude."""
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

    def elsewhere(self) -> ProofState:
        """Return a state for a part of the requests. Findings stay."""
        return ProofState(replace(self.stricter), replace(self.looser), self.bound)

    def meet(self, parts: Sequence[ProofState]) -> None:
        """Combine the states of all parts: one part can show a difference, all parts together exclude it."""
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
        """Whether the claim may still be one of some."""
        possible = set(Comparison)
        if self.stricter.witness is not None:
            possible -= {Comparison.SAME, Comparison.LOOSER}
        if self.looser.witness is not None:
            possible -= {Comparison.SAME, Comparison.STRICTER}
        return bool(possible.intersection(comparisons) - {Comparison.UNKNOWN})

    @property
    def is_open(self) -> bool:
        """Whether anything is left to find out."""
        return any(each.witness is None and not each.is_excluded for each in (self.stricter, self.looser))
