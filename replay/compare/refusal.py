"""Requests that authorizers refused in a period, and in the period before it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from msgspec import Struct, field


class Refused(NamedTuple):
    """Key of requests that are alike. `target` is a resource with group and subresource, or a path."""

    user: str
    verb: str
    target: str


class Refusals(Struct):
    """Numbers of refused requests.

    `earlier` is None if there is no earlier period. `unused` are bindings that allowed nothing.
    """

    now: Counter[Refused] = field(default_factory=Counter)
    earlier: Counter[Refused] | None = None
    unused: tuple[str, ...] = ()

    @property
    def no_longer(self) -> dict[Refused, int]:
        """Requests that were refused in the earlier period only."""
        return {each: count for each, count in (self.earlier or {}).items() if each not in self.now}
