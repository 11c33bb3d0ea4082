"""Claims about a change of a policy, and the requests that show them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum

from msgspec import Struct, field

from replay.json import JSON
from replay.prove.request import SymbolicRequest


class Comparison(StrEnum):
    """How the candidate decides compared with the baseline, over all requests within the bound."""

    SAME = "same"
    STRICTER = "stricter"
    LOOSER = "looser"
    BOTH = "both"
    UNKNOWN = "unknown"


class EnforcementLevel(IntEnum):
    """Result of a request, from allowed to denied: the strictest of the actions."""

    ADMITTED = 0
    AUDITED = 1
    WARNED = 2
    DENIED = 3

    @property
    def text(self) -> str:
        """Return the claim as one word."""
        return self.name.lower()


class ClaimBound(Struct, frozen=True):
    """Within what a claim holds; None stands for no limit.

    `items` are the most in each list that the expressions walk through, `keys` the most in each map beside those that they
    name. `sizes` are the most in any text, list or map, so that no evaluation can run out of its cost budget; where no size is known
    for which that is certain, `within_cost` says that the claim is about requests whose evaluation stays within the budgets.
    """

    items: int | None = None
    keys: int | None = None
    sizes: int | None = None
    within_cost: bool = False

    def __str__(self) -> str:
        """The words that follow a claim, empty where there is no limit."""
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
        """Return the bounds within which both claims hold."""
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
    """A request about which two policies certainly decide differently; `marked` are the paths of the fields that matter."""

    request: SymbolicRequest
    current: EnforcementLevel
    candidate: EnforcementLevel
    current_messages: tuple[str, ...] = ()
    candidate_messages: tuple[str, ...] = ()
    marked: tuple[tuple[str | int, ...], ...] = ()
    patches: Mapping[str, JSON] = field(default_factory=dict)
    """For mutating policies: the patch of each, `current` and `candidate`."""

    @property
    def is_stricter(self) -> bool:
        """Whether the candidate is the harder one."""
        return self.candidate > self.current


class Proof(Struct, frozen=True):
    """Claim about one policy; `reason` says why it is not known, or how it was found."""

    result: Comparison
    bound: ClaimBound = UNBOUNDED
    witnesses: tuple[Witness, ...] = ()
    reason: str = ""

    @property
    def text(self) -> str:
        """The claim in words, with its bound."""
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
