"""Index of constraints that may match a review, by kind, operation and enforcement point."""

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
        """Return the constraints at a point that handle an operation and whose `match` allows one of the kinds."""
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
