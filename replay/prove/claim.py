"""Claims about a change of a policy, and the requests that show them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum

from msgspec import Struct, field

from replay.json import JSON
from replay.prove.request import SymbolicRequest


class Comparison(StrEnum):
    """Decisions of the candidate compared with those of the baseline, over all requests within the bound."""

    SAME = "same"
    STRICTER = "stricter"
    LOOSER = "looser"
    BOTH = "both"
    UNKNOWN = "unknown"


class EnforcementLevel(IntEnum):
    """Strictest action of a set for a request."""

    ADMITTED = 0
    AUDITED = 1
    WARNED = 2
    DENIED = 3

    @property
    def text(self) -> str:
        """Name in lower case."""
        return self.name.lower()


class ClaimBound(Struct, frozen=True):
    """Bound within which a claim holds. None means no limit.

    `items` limits each list that expressions iterate, `keys` each map's keys besides those that are named. `sizes`
    limits texts, lists and maps so that no evaluation can exceed its cost budget. If no such size is known,
    `within_cost` limits the claim to requests within the budgets.
    """

    items: int | None = None
    keys: int | None = None
    sizes: int | None = None
    within_cost: bool = False

    def __str__(self) -> str:
        """Return the words that follow a claim. They are empty if there is no limit."""
        parts = []
        if self.items is not None:
            parts.append(f"{self.items} items in each list")
        if self.keys is not None:
            parts.append(f"{self.keys} further keys in each map")
        size = f"up to {' and '.join(parts)}" if parts else ""
        if self.within_cost:
            cost = "as long as evaluations stay within the cost budgets"
        else:
            cost = f"as long as no text, list or map is longer than {self.sizes:,}" if self.sizes is not None else ""
        return ", ".join(each for each in (size, cost) if each)

    def merge(self, other: ClaimBound) -> ClaimBound:
        """Return the bound within which both claims hold."""
        return ClaimBound(
            _least(self.items, other.items),
            _least(self.keys, other.keys),
            _least(self.sizes, other.sizes),
            self.within_cost or other.within_cost,
        )


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


UNBOUNDED = ClaimBound()


class Witness(Struct, frozen=True):
    """Request that two policies certainly decide differently. `marked` are the paths of the fields that matter."""

    request: SymbolicRequest
    current: EnforcementLevel
    candidate: EnforcementLevel
    current_messages: tuple[str, ...] = ()
    candidate_messages: tuple[str, ...] = ()
    marked: tuple[tuple[str | int, ...], ...] = ()
    patches: Mapping[str, JSON] = field(default_factory=dict)
    """Patches of mutating policies, by `current` and `candidate`."""

    @property
    def is_stricter(self) -> bool:
        """Whether the candidate is stricter."""
        return self.candidate > self.current


class Proof(Struct, frozen=True):
    """Claim about one policy. `reason` says why it is unknown, or how it was found."""

    result: Comparison
    bound: ClaimBound = UNBOUNDED
    witnesses: tuple[Witness, ...] = ()
    reason: str = ""

    @property
    def text(self) -> str:
        """Claim in words, with its bound."""
        words = {
            Comparison.SAME: "no difference",
            Comparison.STRICTER: "only stricter",
            Comparison.LOOSER: "only looser",
            Comparison.BOTH: "both stricter and looser",
            Comparison.UNKNOWN: "not known",
        }[self.result]
        bound = str(self.bound) if self.result in {Comparison.SAME, Comparison.STRICTER, Comparison.LOOSER} else ""
        because = f": {self.reason}" if self.reason and self.result in {Comparison.UNKNOWN, Comparison.SAME} else ""
        return f"{words}{' ' if bound else ''}{bound}{because}"
