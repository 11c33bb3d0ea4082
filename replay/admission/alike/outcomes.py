"""What the expressions of a policy came to, by what they read; what messages read counts only where one was evaluated."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from replay.admission.alike.projection import Projection, projection
from replay.admission.alike.results import AlikeResults

V = TypeVar("V")
Projected = Callable[[Projection], Hashable | None]
"""The projection of one input; None where there is none."""
MOST_OUTCOMES: Final = 4096


class AlikeOutcomes(Generic[V]):
    """Outcomes of one policy. INVARIANT: one for which no message was evaluated depends on none."""

    def __init__(self, footprint_without_messages: frozenset[str], footprint: frozenset[str]) -> None:
        """All that the expressions read, without messages and with them."""
        self._without_messages = projection(footprint_without_messages)
        self._all = projection(footprint)
        self._by_messages: AlikeResults[bool] = AlikeResults(MOST_OUTCOMES)
        self._outcomes: AlikeResults[Any] = AlikeResults(MOST_OUTCOMES)

    def find(self, projected: Projected) -> V | None:
        """The outcome for an input that is alike, None where there was none."""
        key = self._key(projected)
        return None if key is None else self._outcomes.get(key)

    def remember(self, projected: Projected, outcome: V, *, has_read_messages: bool) -> None:
        """Keep an outcome."""
        if has_read_messages and (short := self._short_key(projected)) is not None:
            self._by_messages.remember(short, result=True)
        key = self._key(projected)
        if key is not None:
            self._outcomes.remember(key, outcome)

    def _short_key(self, projected: Projected) -> Hashable | None:
        return None if self._without_messages is None else projected(self._without_messages)

    def _key(self, projected: Projected) -> Hashable | None:
        """What an outcome depends on; None where there is no such key."""
        short = self._short_key(projected)
        if short is None or short not in self._by_messages:
            return None if short is None else (short, False)
        whole = None if self._all is None else projected(self._all)
        return None if whole is None else (whole, True)
