"""The input of the RBAC and node authorizers at the time of a request: RBAC objects, and the graph of nodes.

Objects can change at any time during a log. Objects that never change are read once, and the others are added for each
state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import orjson
from msgspec import Struct

from replay.audit.event import CREATED, RequestRecord
from replay.authorization.manifest import RBACKey, laid_over, rbac_key
from replay.authorization.node_authorizer import GRAPH_KINDS, POD, NodeGraph, Vertex, vertex_of
from replay.go.time import timestamp
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister
from replay.kube.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC_KINDS, aggregated
from replay.kube.rbac_authorizer import RoleResolver
from replay.on_demand import pl
from replay.reconstruct.cluster import CACHE_DELAY, Cluster, ClusterLister
from replay.reconstruct.history.clock import NEVER
from replay.reconstruct.history.derived import instant
from replay.reconstruct.history.effect import Effect, EffectKind
from replay.reconstruct.history.history import History
from replay.reconstruct.record.known import attribute

_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63
_NO_SNAPSHOT = "give a snapshot of the cluster (--cluster)"


class _StateLister:
    """Lister of the objects at one time. Of some it is only known that they may exist."""

    def __init__(
        self,
        objects: ObjectLister,
        missing: Mapping[tuple[str, str, str], Missing],
        uncovered: Mapping[str, Missing],
    ) -> None:
        """`missing` is by kind, namespace and name. `uncovered` are the kinds of which any object may exist."""
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
        """See `Lister.list`. A `Missing` in the result stands for any number of possible objects."""
        objects = list(self._objects.list(kind, namespace))
        objects += [
            missing
            for key, missing in self._missing.items()
            if key[0] == kind.kind and (namespace is None or key[1] == namespace)
        ]
        uncovered = self._uncovered.get(kind.kind)
        return [*objects, uncovered] if uncovered is not None else objects


class Instants:
    """The times at which a state can change: from the arrival of a write until the informers have seen it."""

    def __init__(self, writes: Iterable[tuple[int, int]]) -> None:
        """`writes` are pairs of the instants after and before which an object was written, in microseconds."""
        # An authorizer reads informers, which see a write up to CACHE_DELAY after it was done.
        self._times = sorted({time for start, end in writes for time in (start, end + CACHE_DELAY)})
        self._last = (1, 0, (0, 0))

    def state_of(self, start: int, end: int) -> tuple[int, int]:
        """Return a pair that is equal for all times between the same changes."""
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
        """A time before the first change, and a time after each change."""
        return [self._times[0] - 1, *self._times] if self._times else []

    def states_of(self, starts: pl.Series, ends: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Return both numbers of `state_of` for many times."""
        times = pl.Series(self._times, dtype=pl.Int64)
        return times.search_sorted(starts, side="right"), times.search_sorted(ends, side="right")


RBACState = tuple[RBACKey, JSON | PartialObject | Missing]
"""The key of an object with its state. The object exists, or may exist."""


def _uncovered(kind: GroupVersionKind) -> Missing:
    """Return the Missing for a kind that the snapshot does not cover."""
    return Missing(kind.kind, f"the snapshot has no objects of kind {kind.kind}", _NO_SNAPSHOT)


def _state_at(
    lister: ClusterLister, kind: GroupVersionKind, namespace: str, name: str
) -> JSON | PartialObject | Missing | None:
    """Return an object at a time, or None if it is absent. Unknown parts are Missing."""
    state = lister.known(kind, namespace, name)
    if isinstance(state, Missing):
        return lister.possibly_absent(kind, namespace, name) or state
    return state if state is None else attribute(state, kind.kind)


_LOST = "the log lacks a write to it"
_VANISHED = "a later snapshot does not have it, and the log does not show its deletion"


class ChangingObject:
    """An object that changes during the log. Equal states are the same value."""

    def __init__(self, cluster: Cluster, kind: GroupVersionKind, namespace: str, name: str) -> None:
        """The cluster must have a history of the object."""
        self.key = (kind.kind, namespace, name)
        self._cluster = cluster
        self.kind = kind
        history = cluster.history(kind, namespace, name)
        assert history is not None
        self.writes = tuple((effect.start, effect.end) for effect in history.effects)
        """The instants after and before which each of its states was written."""
        self._gaps = tuple(_gaps(cluster, kind, history, cluster.snapshot_object(kind.group, *self.key)))
        self._instants = Instants(self.writes)
        self._at: dict[tuple[int, int], JSON | PartialObject | Missing | None] = {}
        self._values: dict[bytes, JSON | PartialObject | Missing | None] = {}

    def at(self, start: int, end: int) -> JSON | PartialObject | Missing | None:
        """Return the object at a time, or None if it is absent. Unknown parts are Missing."""
        instant = self._instants.state_of(start, end)
        if instant not in self._at:
            value = _state_at(ClusterLister(self._cluster, start, end), self.kind, *self.key[1:])
            gap = next((why for first, last, why in self._gaps if start < last + CACHE_DELAY and end >= first), None)
            if gap is not None:
                value = Missing(self.kind.kind, gap)
            self._at[instant] = self._values.setdefault(orjson.dumps(value, default=str), value)
        return self._at[instant]

    @property
    def states(self) -> Iterator[JSON | PartialObject | Missing]:
        """All states of the object, as they are between changes."""
        states = (self.at(time, time) for time in self._instants.moments)
        return (state for state in states if state is not None)


def _gaps(cluster: Cluster, kind: GroupVersionKind, history: History, snapshot: JSON) -> Iterator[tuple[int, int, str]]:
    """Yield the first time, the last time and the reason of each period with possible changes that the log lacks."""
    for earlier, after in pairwise(history.effects):
        if _is_gap(earlier, after):
            yield earlier.start, after.end, _LOST
    if snapshot is not None or not history.effects or not cluster.is_covered(kind):
        return
    last = history.effects[-1]
    if last.kind is EffectKind.STATE and last.revision is not None and last.revision < cluster.newest_revision:
        yield last.start, NEVER, _VANISHED


def _is_gap(earlier: Effect, after: Effect) -> bool:
    """Return whether an unlogged change must lie between two effects.

    Then the later effect is of another object, or of another version.
    """
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
    """Yield the objects that do not change from `began`, the start of the log, on."""
    for kind, namespace, name in _keys(cluster, kinds):
        if not _changes(cluster, kind, namespace, name, began):
            yield (kind.kind, namespace, name), cluster.snapshot_object(kind.group, kind.kind, namespace, name)


def changing_objects(cluster: Cluster, kinds: Iterable[GroupVersionKind], began: int) -> list[ChangingObject]:
    """Return the objects that the log writes, and those of the snapshot that were written after the log began."""
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


class ChangingLister:
    """Lister of the objects of one time that exist only for a part of the log, or that may not exist."""

    def __init__(self, states: Iterable[RBACState]) -> None:
        """The later of two objects with the same key counts."""
        self._states = dict(states)
        self._listed: dict[tuple[str, str], list[JSON | PartialObject | Missing]] | None = None

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | PartialObject | Missing | None:
        """See `Lister.get`."""
        return self._states.get((kind.kind, namespace, name))

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """See `Lister.list`. The result is sorted."""
        if self._listed is None:
            self._listed = {}
            for key, value in sorted(self._states.items(), key=lambda item: item[0]):
                self._listed.setdefault(key[:2], []).append(value)
        if namespace is not None:
            return self._listed.get((kind.kind, namespace), ())
        return [value for key, values in self._listed.items() if key[0] == kind.kind for value in values]


class RBACStates:
    """RBAC under one set over the time of a log.

    Objects that never change are read once, and the others are added for each state.
    """

    def __init__(
        self,
        cluster: Cluster,
        constant: Iterable[RBACState],
        own: Sequence[JSON] | None,
        deleted: Collection[RBACKey] = frozenset(),
    ) -> None:
        """`own` are the set's objects that replace the cluster's, None if it has none.

        `deleted` are those that it deletes.
        """
        self._overlaid = frozenset(map(rbac_key, own or ())) | frozenset(deleted)
        self._aggregates = own is not None
        missing, objects, partial = _divided((key, value) for key, value in constant if key not in self._overlaid)
        laid = laid_over(objects, own, deleted)
        self._cluster_roles = [obj for obj in (*objects, *(own or ())) if obj["kind"] == CLUSTER_ROLE.kind]
        self._aggregated: dict[tuple[int, ...], list[RBACState]] = {}
        absent = {kind.kind: _uncovered(kind) for kind in RBAC_KINDS if own is None and _is_uncovered(cluster, kind)}
        self.lister = _StateLister(ObjectLister([*laid, *partial]), missing, absent)
        """Lister of the objects that never change."""
        self.base = RoleResolver(self.lister)

    def at(self, changing: Iterable[RBACState]) -> RoleResolver:
        """Return the rules at a time.

        `changing` are the objects that exist then, or may exist, beside those that never change.
        """
        return RoleResolver(ChangingLister(self._changed(changing)), self.base)

    def objects_at(self, changing: Iterable[RBACState]) -> list[JSON]:
        """Return the fully known objects of a time."""
        constant = (obj for kind in RBAC_KINDS for obj in self.lister.list(kind, None) if isinstance(obj, dict))
        state = {rbac_key(obj): obj for obj in constant}
        state |= {key: value for key, value in self._changed(changing) if isinstance(value, dict)}
        return [state[key] for key in sorted(state)]

    def _changed(self, changing: Iterable[RBACState]) -> list[RBACState]:
        own_states = [(key, value) for key, value in changing if key not in self._overlaid]
        return [*own_states, *self._collecting(own_states)]

    def _collecting(self, own_states: Sequence[RBACState]) -> Sequence[RBACState]:
        """Return the aggregated roles of a time.

        They are built only if the set has RBAC objects of its own and cluster roles change.
        """
        roles = [value for key, value in own_states if key[0] == CLUSTER_ROLE.kind] if self._aggregates else []
        if not roles:
            return ()
        # Equal values are one object, which `ChangingObject` keeps.
        key = tuple(map(id, roles))
        roles_with_rules = self._aggregated.get(key)
        if roles_with_rules is None:
            certain = [role for role in roles if not isinstance(role, Missing | PartialObject)]
            collected = [role for role in aggregated([*self._cluster_roles, *certain]) if role.get("aggregationRule")]
            unknown = _missing_role(roles)
            roles_with_rules = self._aggregated[key] = [
                (rbac_key(role), role if unknown is None else _with_unknown_rules(role, unknown)) for role in collected
            ]
        return roles_with_rules


def _missing_role(roles: Iterable[JSON | PartialObject | Missing]) -> Missing | None:
    """Return the first unknown part of the roles, or None."""
    for role in roles:
        if isinstance(role, Missing):
            return role
        if isinstance(role, PartialObject):
            return role.missing[0]
    return None


def _with_unknown_rules(role: JSON, unknown: Missing) -> PartialObject:
    """Return an aggregated role to which an unknown role can add rules."""
    return PartialObject({**role, "rules": [*(role.get("rules") or ()), unknown]}, (unknown,))


def _divided(states: Iterable[RBACState]) -> tuple[dict[RBACKey, Missing], list[JSON], list[PartialObject]]:
    """Divide objects into unknown, fully known and partly known ones."""
    missing: dict[RBACKey, Missing] = {}
    objects: list[JSON] = []
    partial: list[PartialObject] = []
    for key, value in states:
        if isinstance(value, Missing):
            missing[key] = value
        elif isinstance(value, PartialObject):
            partial.append(value)
        else:
            objects.append(value)
    return missing, objects, partial


def _is_uncovered(cluster: Cluster, kind: GroupVersionKind) -> bool:
    """Return whether any object of a kind can exist.

    The other kinds count as covered if the snapshot covers any RBAC kind, because a cluster may have no objects of
    them. Every cluster has ClusterRoleBindings.
    """
    return not any(map(cluster.is_covered, (kind,) if kind is CLUSTER_ROLE_BINDING else RBAC_KINDS))


def bound_pods(writes: Iterable[RequestRecord]) -> dict[tuple[str, str], int]:
    """Return the pods that the log shows to be bound, by namespace and name, with the time of their binding."""
    return {
        (record.namespace, record.name): record.received
        for record in writes
        if record.resource == "pods" and record.subresource == "binding" and 200 <= record.code < 300
    }


class GraphStates:
    """The node graph over the time of a log.

    Requests are decided in order, so the graph changes little from one to the next. `bindings` (`bound_pods`) tell
    about pods without a body. A pod of which only the creation is known gives no node access before it is bound.
    """

    def __init__(self, cluster: Cluster, bindings: Mapping[tuple[str, str], int], began: int) -> None:
        """`began` is the start of the log, in microseconds."""
        self._cluster = cluster
        self._bindings = bindings
        self._graph = NodeGraph()
        for key, value in unchanging(cluster, GRAPH_KINDS, began):
            kind = next(kind for kind in GRAPH_KINDS if kind.kind == key[0])
            self._graph.put(kind, vertex_of(kind, *key[1:]), value)
        if not cluster.is_covered(POD):
            self._graph.put(POD, None, _uncovered(POD))
        self._objects = changing_objects(cluster, GRAPH_KINDS, began)
        changes = sorted(
            (time, number)
            for number, each in enumerate(self._objects)
            for time in {time for start, end in each.writes for time in (start, end + CACHE_DELAY)}
        )
        self._times = [time for time, _ in changes]
        self._changed = [number for _, number in changes]
        self._at: tuple[int, int] | None = None

    def state_of(self, start: int, end: int) -> tuple[int, int]:
        """Return a pair that is equal for all times between the same changes."""
        return bisect_right(self._times, start), bisect_right(self._times, end)

    def at(self, start: int, end: int) -> NodeGraph:
        """Return the graph at a time. It is valid until the next call."""
        now = self.state_of(start, end)
        if self._at is None:
            changed = set(range(len(self._objects)))
        else:
            # Times are nearly in order, so only the objects between the old and the new place are replaced.
            changed = {
                number
                for number_before, after in zip(self._at, now, strict=True)
                for number in self._changed[min(number_before, after) : max(number_before, after)]
            }
        for number in changed:
            own = self._objects[number]
            self._graph.put(own.kind, vertex_of(own.kind, *own.key[1:]), self._state(own, start, end))
        self._at = now
        return self._graph

    def _state(self, own: ChangingObject, start: int, end: int) -> JSON | PartialObject | Missing | None:
        state = own.at(start, end)
        if own.kind is not POD or not isinstance(state, Missing):
            return state
        bound_at = self._bindings.get(own.key[1:])
        if bound_at is None or bound_at <= end:
            pod = self._bound_pod(*own.key[1:], start)
            if pod is not None:
                return pod
        return None if bound_at is None or bound_at > end else state

    def _bound_pod(self, namespace: str, name: str, start: int) -> JSON:
        """Return any known state of a pod on a node, if the pod existed at `start`, or None.

        The objects that a pod refers to never change, so any state serves.
        """
        history = self._cluster.history(POD, namespace, name)
        states = [effect.state for effect in history.effects if effect.state] if history is not None else []
        states.append(self._cluster.snapshot_object("", POD.kind, namespace, name))
        for pod in reversed(states):
            created = str(((pod or {}).get("metadata") or {}).get("creationTimestamp") or "")
            if pod and (pod.get("spec") or {}).get("nodeName") and created and created <= timestamp(start):
                return pod
        return None


class GraphAt(Struct, frozen=True):
    """The graph at one time."""

    states: GraphStates
    start: int
    end: int

    def has_path(self, start: Vertex, node: str) -> bool | Missing:
        """See `Graph`."""
        return self.states.at(self.start, self.end).has_path(start, node)
