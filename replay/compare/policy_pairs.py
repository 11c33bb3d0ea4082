"""Policies that replace each other, and the requests that they decide differently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, field


class PolicyPair(Struct, frozen=True):
    """The policies of the baseline, and those of the candidate that take their place."""

    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def title(self) -> str:
        """Both sides on a line."""
        return f"{', '.join(self.old) or 'nothing'} → {', '.join(self.new) or 'nothing'}"


class Witness(Struct, frozen=True):
    """Request that the two sides decide differently, with the denial's text."""

    id: str
    request: str
    message: str


class PairComparison(Struct):
    """Decisions of both sides over the requests of a log."""

    pair: PolicyPair
    both: int = 0
    undetermined: int = 0
    old_only: list[Witness] = field(default_factory=list)
    new_only: list[Witness] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Return whether they decide any request differently."""
        return bool(self.old_only or self.new_only)


def pairs_by_name(old: Iterable[str], new: Iterable[str], written: Iterable[PolicyPair] = ()) -> tuple[PolicyPair, ...]:
    """The pairs that are `written`, and of all else those with the same name: the rules of a policy together.

    A policy that has no counterpart is a pair with nothing.
    """
    pairs = list(written)
    taken = {name for pair in pairs for name in (*pair.old, *pair.new)}
    left = [name for name in dict.fromkeys(old) if name not in taken]
    right = [name for name in dict.fromkeys(new) if name not in taken]
    groups = dict.fromkeys(map(_own_name, (*left, *right)))
    for group in groups:
        ours, theirs = (tuple(name for name in side if _own_name(name) == group) for side in (left, right))
        pairs.append(PolicyPair(ours, theirs))
    return tuple(pairs)


def _own_name(name: str) -> str:
    """The name of a policy, without its kind, its rule, and what a static native one ends with."""
    kind, _, rest = name.partition("/")
    if not rest:
        return kind.removesuffix(".static.k8s.io")
    parts = rest.split("/")
    has_rule = kind in ("ClusterPolicy", "Policy")
    return parts[-2] if has_rule and len(parts) > 1 else parts[-1]


def is_denied_by(policies: Sequence[str], names: Collection[str]) -> bool:
    """Whether any policy of a side is among those that deny."""
    return any(each in names for each in policies)
