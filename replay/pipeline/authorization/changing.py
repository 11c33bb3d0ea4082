"""Objects that change during a log, at any time: certain parts, and lost writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import orjson

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.pipeline.authorization.state import Instants, RBACState, state_at
from replay.reconstruct.cluster import CACHE_DELAY, Cluster, ClusterLister
from replay.reconstruct.history.clock import NEVER
from replay.reconstruct.history.derived import instant
from replay.reconstruct.history.effect import Effect, EffectKind
from replay.reconstruct.history.history import CREATED, History

_LOST = "a write to it is not in the log"
_VANISHED = "a snapshot taken later does not hold it, and the log does not show when it was deleted"


class ChangingObject:
    """An object that changes in the time of the log, as of any time; equal states are one value."""

    def __init__(self, cluster: Cluster, kind: GroupVersionKind, namespace: str, name: str) -> None:
        """The cluster knows the object."""
        self.key = (kind.kind, namespace, name)
        self._cluster = cluster
        self.kind = kind
        history = cluster.history(kind, namespace, name)
        assert history is not None
        self.writes = tuple((effect.start, effect.end) for effect in history.effects)
        """After which and before which instant each of its states was written."""
        self._gaps = tuple(_gaps(cluster, kind, history, cluster.snapshot_object(kind.group, *self.key)))
        self._instants = Instants(self.writes)
        self._at: dict[tuple[int, int], JSON | PartialObject | Missing | None] = {}
        self._values: dict[bytes, JSON | PartialObject | Missing | None] = {}

    def at(self, start: int, end: int) -> JSON | PartialObject | Missing | None:
        """Return the object at a time, None if absent. Unknown parts are missing."""
        instant = self._instants.state_of(start, end)
        if instant not in self._at:
            value = state_at(ClusterLister(self._cluster, start, end), self.kind, *self.key[1:])
            gap = next((why for first, last, why in self._gaps if start < last + CACHE_DELAY and end >= first), None)
            if gap is not None:
                value = Missing(self.kind.kind, gap)
            self._at[instant] = self._values.setdefault(orjson.dumps(value, default=str), value)
        return self._at[instant]

    @property
    def states(self) -> Iterator[JSON | PartialObject | Missing]:
        """Yield all its states outside of changes."""
        states = (self.at(time, time) for time in self._instants.moments)
        return (state for state in states if state is not None)


def _gaps(cluster: Cluster, kind: GroupVersionKind, history: History, snapshot: JSON) -> Iterator[tuple[int, int, str]]:
    """From when until when, and why, an object may have been changed without a trace in the log."""
    for earlier, after in pairwise(history.effects):
        if _is_gap(earlier, after):
            yield earlier.start, after.end, _LOST
    if snapshot is not None or not history.effects or not cluster.is_covered(kind):
        return
    last = history.effects[-1]
    if last.kind is EffectKind.STATE and last.revision is not None and last.revision < cluster.newest_revision:
        yield last.start, NEVER, _VANISHED


def _is_gap(earlier: Effect, after: Effect) -> bool:
    """Whether something must have happened between two effects: the later is of another object, or of another version."""
    if earlier.kind not in (EffectKind.STATE, EffectKind.GONE):
        return False
    record = after.exchange.record if after.exchange is not None else None
    if earlier.kind is EffectKind.GONE:
        if after.snapshot is not None:  # it was created at the time that it says
            return instant(_created(after)) < after.start
        # Only a creation follows; a collection that is deleted need not hold the object.
        return record is not None and record.code != CREATED
    if earlier.uid and after.uid and earlier.uid != after.uid:
        return True
    if record is None or earlier.revision is None:
        return False
    object_version = record.object_resource_version
    is_other = record.verb == "update" and object_version.isdecimal() and int(object_version) > earlier.revision
    return is_other or (record.verb == "create" and record.code == CREATED)


def _created(effect: Effect) -> JSON:
    return ((effect.state or {}).get("metadata") or {}).get("creationTimestamp")


def unchanging(cluster: Cluster, kinds: Iterable[GroupVersionKind], began: int) -> Iterator[RBACState]:
    """The objects that are there all the time from `began`, when the log begins, on."""
    for kind, namespace, name in _keys(cluster, kinds):
        if not _changes(cluster, kind, namespace, name, began):
            yield (kind.kind, namespace, name), cluster.snapshot_object(kind.group, kind.kind, namespace, name)


def changing_objects(cluster: Cluster, kinds: Iterable[GroupVersionKind], began: int) -> list[ChangingObject]:
    """The objects that the log writes, and those of the snapshot that were written when the log had begun."""
    return [
        ChangingObject(cluster, kind, namespace, name)
        for kind, namespace, name in _keys(cluster, kinds)
        if _changes(cluster, kind, namespace, name, began)
    ]


def _keys(cluster: Cluster, kinds: Iterable[GroupVersionKind]) -> Iterator[tuple[GroupVersionKind, str, str]]:
    return ((kind, namespace, name) for kind in kinds for _, _, namespace, name in cluster.keys(kind))


def _changes(cluster: Cluster, kind: GroupVersionKind, namespace: str, name: str, began: int) -> bool:
    if cluster.is_written(kind, namespace, name):
        return True
    history = cluster.history(kind, namespace, name)
    return history is not None and not history.settled_before(began - CACHE_DELAY)
