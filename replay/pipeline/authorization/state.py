"""Input of the built-in authorizers at the time of a request: RBAC and the objects of nodes.

All requests between two writes share one state. An object that is being written is missing, and decisions that depend
on it are unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from replay.authorization.manifest import RBACKey
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister
from replay.reconstruct.cluster import CACHE_DELAY, ClusterLister
from replay.reconstruct.record.known import attribute

_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63
_NO_SNAPSHOT = "give a snapshot of the cluster (--cluster)"


class StateLister:
    """The objects of some kinds at one time; of some it is only known that they may be there."""

    def __init__(
        self,
        objects: ObjectLister,
        missing: Mapping[tuple[str, str, str], Missing],
        uncovered: Mapping[str, Missing],
    ) -> None:
        """`missing` by kind, namespace and name; `uncovered` are kinds of which any object may exist."""
        self._objects = objects
        self._missing = missing
        self._uncovered = uncovered

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        obj = self._objects.get(kind, namespace, name)
        if obj is not None:
            return obj
        return self._missing.get((kind.kind, namespace, name)) or self._uncovered.get(kind.kind)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """See `Lister.list`. A `Missing` in it stands for any number of possible objects."""
        objects = list(self._objects.list(kind, namespace))
        objects += [
            missing
            for key, missing in self._missing.items()
            if key[0] == kind.kind and (namespace is None or key[1] == namespace)
        ]
        uncovered = self._uncovered.get(kind.kind)
        return [*objects, uncovered] if uncovered is not None else objects


class Instants:
    """The times at which a state may change: from a write's arrival until informers have seen it."""

    def __init__(self, writes: Iterable[tuple[int, int]]) -> None:
        """`writes` are after which and before which instant something was written, in microseconds."""
        self._times = sorted({time for start, end in writes for time in (start, end + CACHE_DELAY)})
        self._last = (1, 0, (0, 0))

    def state_of(self, start: int, end: int) -> tuple[int, int]:
        """Equal for all times between the same changes."""
        first, last, state = self._last
        # Most requests come when nothing changes, and in order: they lie between the same two times as the one before.
        if first <= start <= end < last:
            return state
        times = self._times
        state = bisect_right(times, start), bisect_right(times, end)
        if state[0] == state[1]:
            place = state[0]
            first = times[place - 1] if place else _BEFORE_ALL
            self._last = first, times[place] if place < len(times) else _AFTER_ALL, state
        return state

    @property
    def moments(self) -> Sequence[int]:
        """A time before the first change, and one after each until the next."""
        return [self._times[0] - 1, *self._times] if self._times else []

    def states_of(self, starts: pl.Series, ends: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Both numbers of `state_of` for many times."""
        times = pl.Series(self._times, dtype=pl.Int64)
        return times.search_sorted(starts, side="right"), times.search_sorted(ends, side="right")


RBACState = tuple[RBACKey, JSON | PartialObject | Missing]
"""An object that is there, or may be."""


def uncovered(kind: GroupVersionKind) -> Missing:
    """Return the unknown for a kind that the snapshot does not cover."""
    return Missing(kind.kind, f"the snapshot holds no {kind.kind}", _NO_SNAPSHOT)


def state_at(
    lister: ClusterLister, kind: GroupVersionKind, namespace: str, name: str
) -> JSON | PartialObject | Missing | None:
    """Return an object at a time, None if absent. Unknown parts are missing."""
    state = lister.known(kind, namespace, name)
    if isinstance(state, Missing):
        return lister.perhaps_absent(kind, namespace, name) or state
    return state if state is None else attribute(state, kind.kind)
