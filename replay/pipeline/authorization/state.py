"""What the built-in authorizers look at, as of the time of a request: RBAC and the objects that belong to nodes.

Between two writes nothing changes, so that all requests of that time share one state. Where something was changing, what is not
certain is missing, and a decision that depends on it is unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import orjson

from replay.audit.event import RequestRecord
from replay.authorization.manifest import RBACKey, laid_over, rbac_key
from replay.authorization.node_graph import GRAPH_KINDS, POD
from replay.json import JSON
from replay.kube.aggregation import aggregated
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister
from replay.kube.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, RoleResolver
from replay.reconstruct.cluster import CACHE_DELAY, Cluster, ClusterLister
from replay.reconstruct.record.known import attribute
from replay.report.outcome_line import timestamp

RBAC_KINDS = (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)
RBAC_RESOURCES = tuple(
    f"{name}.rbac.authorization.k8s.io" for name in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
)
_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63
_NO_SNAPSHOT = "give a snapshot of the cluster (--cluster)"


class StateLister:
    """The objects of some kinds at one time; of some it is only known that they may be there."""

    def __init__(
        self,
        known: ObjectLister,
        missing: Mapping[tuple[str, str, str], Missing],
        uncovered: Mapping[str, Missing],
    ) -> None:
        """`missing` by kind, namespace and name; `uncovered` are kinds of which there may be any object."""
        self._known = known
        self._missing = missing
        self._uncovered = uncovered

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        found = self._known.get(kind, namespace, name)
        if found is not None:
            return found
        return self._missing.get((kind.kind, namespace, name)) or self._uncovered.get(kind.kind)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """See `Lister.list`; a `Missing` in it stands for an object, or any number of them, that may be there."""
        found = list(self._known.list(kind, namespace))
        found += [
            missing
            for key, missing in self._missing.items()
            if key[0] == kind.kind and (namespace is None or key[1] == namespace)
        ]
        uncovered = self._uncovered.get(kind.kind)
        return [*found, uncovered] if uncovered is not None else found


class ChangingLister:
    """The objects of one time that are not there all the time, or may not be."""

    def __init__(self, states: Iterable[State]) -> None:
        """Of two with one identity the later counts."""
        self._states = dict(states)
        self._listed: dict[tuple[str, str], list[JSON | PartialObject | Missing]] | None = None

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | PartialObject | Missing | None:
        """See `Lister.get`."""
        return self._states.get((kind.kind, namespace, name))

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """See `Lister.list`, sorted too."""
        if self._listed is None:
            self._listed = {}
            for key, value in sorted(self._states.items(), key=lambda item: item[0]):
                self._listed.setdefault(key[:2], []).append(value)
        if namespace is not None:
            return self._listed.get((kind.kind, namespace), ())
        return [value for key, values in self._listed.items() if key[0] == kind.kind for value in values]


class Instants:
    """The times at which a state may change: from a write's arrival until informers have seen it."""

    def __init__(self, records: Iterable[RequestRecord]) -> None:
        """`records` are writes; those that failed change nothing."""
        times = [
            time
            for record in records
            if 200 <= record.code < 300
            for time in (record.received, record.stage_time + CACHE_DELAY)
        ]
        self._times = sorted(times)
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


class WrittenObject:
    """An object that the log wrote, as of any time; equal states are one value."""

    def __init__(self, kind: GroupVersionKind, namespace: str, name: str, records: Iterable[RequestRecord]) -> None:
        """`records` are the writes to it."""
        self.key: RBACKey = (kind.kind, namespace, name)
        self._kind = kind
        self._instants = Instants(records)
        self._at: dict[tuple[int, int], JSON | PartialObject | Missing | None] = {}
        self._values: dict[bytes, JSON | PartialObject | Missing | None] = {}

    def at(self, cluster: Cluster, start: int, end: int) -> JSON | PartialObject | Missing | None:
        """The object at a time, None if it was not there; what is not known of it is missing."""
        instant = self._instants.state_of(start, end)
        if instant not in self._at:
            lister = ClusterLister(cluster, start, end)
            value = _state(lister, self._kind, self.key[1], self.key[2])
            self._at[instant] = self._values.setdefault(orjson.dumps(value, default=str), value)
        return self._at[instant]


State = tuple[RBACKey, JSON | PartialObject | Missing]
"""An object that is there, or may be."""


class RBACStates:
    """RBAC under one set over the time of a log: what never changes is read once, what changes is laid over it."""

    def __init__(
        self,
        cluster: Cluster,
        unchanging: Iterable[State],
        own: Sequence[JSON] | None,
        deleted: Collection[RBACKey] = frozenset(),
    ) -> None:
        """`own` are the objects that a set lays over those of the cluster, None if it has no say, `deleted` what it deletes."""
        self._overlaid = frozenset(map(rbac_key, own or ())) | frozenset(deleted)
        self._aggregates = own is not None
        missing, objects, partial = _divided((key, value) for key, value in unchanging if key not in self._overlaid)
        laid = laid_over(objects, own, deleted)
        self._cluster_roles = [obj for obj in (*objects, *(own or ())) if obj["kind"] == CLUSTER_ROLE.kind]
        self._aggregated: dict[tuple[int, ...], list[State]] = {}
        uncovered = {kind.kind: _uncovered(kind) for kind in RBAC_KINDS if own is None and _is_uncovered(cluster, kind)}
        self.lister = StateLister(ObjectLister([*laid, *partial]), missing, uncovered)
        """What never changes."""
        self.base = RoleResolver(self.lister)

    def at(self, changing: Iterable[State]) -> RoleResolver:
        """The rules of a time at which there are, or may be, these objects beside those that never change."""
        known = [(key, value) for key, value in changing if key not in self._overlaid]
        return RoleResolver(ChangingLister([*known, *self._collecting(known)]), self.base)

    def _collecting(self, known: Sequence[State]) -> Sequence[State]:
        """The aggregated roles of a time, made where the set has a part in RBAC and the cluster roles change."""
        roles = [value for key, value in known if key[0] == CLUSTER_ROLE.kind] if self._aggregates else []
        if not roles:
            return ()
        # Equal values are one object, which `WrittenObject` keeps.
        key = tuple(map(id, roles))
        found = self._aggregated.get(key)
        if found is None:
            certain = [role for role in roles if not isinstance(role, Missing | PartialObject)]
            collected = [role for role in aggregated([*self._cluster_roles, *certain]) if role.get("aggregationRule")]
            unknown = _missing_role(roles)
            found = self._aggregated[key] = [
                (rbac_key(role), role if unknown is None else _with_unknown_rules(role, unknown)) for role in collected
            ]
        return found


def _missing_role(roles: Iterable[JSON | PartialObject | Missing]) -> Missing | None:
    """What is not known of some roles, the first of all."""
    for role in roles:
        if isinstance(role, Missing):
            return role
        if isinstance(role, PartialObject):
            return role.missing[0]
    return None


def _with_unknown_rules(role: JSON, unknown: Missing) -> PartialObject:
    """An aggregated role to which a role that is not known may add rules."""
    return PartialObject({**role, "rules": [*(role.get("rules") or ()), unknown]}, (unknown,))


def _divided(states: Iterable[State]) -> tuple[dict[RBACKey, Missing], list[JSON], list[PartialObject]]:
    """Objects by how much is known of them: nothing, all, or a part."""
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
    """Whether there may be any object of a kind: roles of a namespace may well not be there at all."""
    return not any(map(cluster.is_covered, (kind,) if kind is CLUSTER_ROLE_BINDING else RBAC_KINDS))


def _uncovered(kind: GroupVersionKind) -> Missing:
    return Missing(kind.kind, f"the snapshot holds no {kind.kind}", _NO_SNAPSHOT)


def graph_lister(lister: ClusterLister, bindings: Mapping[tuple[str, str], int]) -> StateLister:
    """The objects that belong to nodes at an instant.

    `bindings` are the pods, by namespace and name, that the log shows to be bound, and when: another one of which nothing is
    known but that it was created gives no node anything.
    """
    objects: list[JSON | PartialObject] = []
    missing: dict[tuple[str, str, str], Missing] = {}
    for key, value in (*unwritten(lister.cluster, GRAPH_KINDS), *written(lister, GRAPH_KINDS)):
        known = value
        if isinstance(value, Missing) and key[0] == POD.kind:
            bound_at = bindings.get((key[1], key[2]))
            if bound_at is None or bound_at <= lister.end:
                known = _bound_pod(lister, key[1], key[2]) or value
            if isinstance(known, Missing) and (bound_at is None or bound_at > lister.end):
                continue
        if isinstance(known, Missing):
            missing[key] = known
        else:
            objects.append(known)
    return StateLister(
        ObjectLister(objects), missing, {} if lister.cluster.is_covered(POD) else {POD.kind: _uncovered(POD)}
    )


def _bound_pod(lister: ClusterLister, namespace: str, name: str) -> JSON:
    """A pod as it was ever seen on a node, if it existed by then: what belongs to the node through it never changes."""
    history = lister.cluster.history(POD, namespace, name)
    seen = [effect.state for effect in history.effects if effect.state] if history is not None else []
    seen.append(lister.cluster.snapshot_object("", POD.kind, namespace, name))
    for pod in reversed(seen):
        created = str(((pod or {}).get("metadata") or {}).get("creationTimestamp") or "")
        if pod and (pod.get("spec") or {}).get("nodeName") and created and created <= timestamp(lister.start):
            return pod
    return None


def unwritten(cluster: Cluster, kinds: Iterable[GroupVersionKind]) -> Iterator[State]:
    """The objects of the snapshot that the log never wrote: they are there all the time."""
    for kind in kinds:
        for _, _, namespace, name in cluster.keys(kind):
            if not cluster.is_written(kind, namespace, name):
                yield (kind.kind, namespace, name), cluster.snapshot_object(kind.group, kind.kind, namespace, name)


def written(lister: ClusterLister, kinds: Iterable[GroupVersionKind]) -> Iterator[State]:
    """The objects that the log wrote, as far as they exist, or may exist, at an instant."""
    for kind in kinds:
        for _, _, namespace, name in lister.cluster.keys(kind):
            if lister.cluster.is_written(kind, namespace, name):
                value = _state(lister, kind, namespace, name)
                if value is not None:
                    yield (kind.kind, namespace, name), value


def written_objects(cluster: Cluster, kinds: Iterable[GroupVersionKind]) -> list[WrittenObject]:
    """The objects of some kinds that the log wrote."""
    return [
        WrittenObject(kind, namespace, name, cluster.writes(kind, namespace, name))
        for kind in kinds
        for _, _, namespace, name in cluster.keys(kind)
        if cluster.is_written(kind, namespace, name)
    ]


def _state(
    lister: ClusterLister, kind: GroupVersionKind, namespace: str, name: str
) -> JSON | PartialObject | Missing | None:
    known = lister.known(kind, namespace, name)
    return known if known is None or isinstance(known, Missing) else attribute(known, kind.kind)
