"""What the built-in authorizers look at, as of the time of a request: RBAC and the objects that belong to nodes.

Between two writes nothing changes, so that all requests of that time share one state. Where something was changing, what is not
certain is missing, and a decision that depends on it is unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from replay.authorization.manifest import RBACKey
from replay.authorization.node_graph import GRAPH_KINDS, POD
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister
from replay.kube.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
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


State = tuple[RBACKey, JSON | PartialObject | Missing]
"""An object that is there, or may be."""


def uncovered(kind: GroupVersionKind) -> Missing:
    """What is not known where the snapshot says nothing about a kind."""
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
        ObjectLister(objects), missing, {} if lister.cluster.is_covered(POD) else {POD.kind: uncovered(POD)}
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
                value = state_at(lister, kind, namespace, name)
                if value is not None:
                    yield (kind.kind, namespace, name), value


def state_at(
    lister: ClusterLister, kind: GroupVersionKind, namespace: str, name: str
) -> JSON | PartialObject | Missing | None:
    """An object at an instant, None if it was not there; what is not known of it is missing."""
    known = lister.known(kind, namespace, name)
    return known if known is None or isinstance(known, Missing) else attribute(known, kind.kind)
