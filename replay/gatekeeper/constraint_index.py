"""Which constraints may have something to say of a review, by what is the same for many reviews: kind, operation, enforcement point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from replay.gatekeeper.constraint import WEBHOOK, Constraint

GroupKind = tuple[str, str]
Asked = tuple[tuple[Constraint, tuple[str, ...]], ...]
"""Constraints with what a violation does."""
_MOST: Final = 4096
"""How many kinds, operations and points are remembered: kinds come from objects."""


class ConstraintIndex:
    """The constraints of a set."""

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        """In their order."""
        self._constraints = tuple(constraints)
        self._asked: dict[tuple[frozenset[GroupKind], str, str], Asked] = {}

    def of(self, kinds: frozenset[GroupKind], operation: str, point: str) -> Asked:
        """Those that stand at a point, handle an operation, and whose `match` does not leave out all kinds of the objects."""
        key = kinds, operation, point
        asked = self._asked.get(key)
        if asked is None:
            if len(self._asked) >= _MOST:
                self._asked.clear()
            asked = self._asked[key] = tuple(
                (each, actions)
                for each in self._constraints
                if (actions := each.actions_at(point))
                and (point != WEBHOOK or each.template.handles(operation))
                and (each.match is None or not kinds or any(each.match.may_match(*kind) for kind in kinds))
            )
        return asked
