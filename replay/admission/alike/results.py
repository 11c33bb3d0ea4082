"""Results that alike requests share."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

V = TypeVar("V")


class AlikeResults(dict[Any, V], Generic[V]):
    """Results by projection, and by what else they depend on. Forgets all where there are too many."""

    def __init__(self, most: int) -> None:
        """No results; `most` of them are kept."""
        super().__init__()
        self._most = most

    def remember(self, key: Any, result: V) -> V:
        """Keep a result, and give it back."""
        if len(self) >= self._most:
            self.clear()
        self[key] = result
        return result
