"""Node graph at the time of a request: one graph in which changed objects are replaced."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from msgspec import Struct

from replay.audit.event import RequestRecord
from replay.authorization.node_graph import GRAPH_KINDS, POD, NodeGraph, Vertex, vertex_of
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.pipeline.authorization.changing import ChangingObject, changing_objects, unchanging
from replay.pipeline.authorization.state import uncovered
from replay.reconstruct.cluster import CACHE_DELAY, Cluster
from replay.report.outcome_line import timestamp


def bound_pods(writes: Iterable[RequestRecord]) -> dict[tuple[str, str], int]:
    """The pods, by namespace and name, that the log shows to be bound, and from when on."""
    return {
        (record.namespace, record.name): record.received
        for record in writes
        if record.resource == "pods" and record.subresource == "binding" and 200 <= record.code < 300
    }


class GraphStates:
    """The graph over the time of a log.

    Requests are decided in their order, so that little changes from one to the next. `bindings` (`bound_pods`) tell of pods
    without a body: one of which nothing is known but that it was created gives no node anything before it is bound.
    """

    def __init__(self, cluster: Cluster, bindings: Mapping[tuple[str, str], int], began: int) -> None:
        """The log begins at `began`, in microseconds."""
        self._cluster = cluster
        self._bindings = bindings
        self._graph = NodeGraph()
        for key, value in unchanging(cluster, GRAPH_KINDS, began):
            kind = next(kind for kind in GRAPH_KINDS if kind.kind == key[0])
            self._graph.put(kind, vertex_of(kind, *key[1:]), value)
        if not cluster.is_covered(POD):
            self._graph.put(POD, None, uncovered(POD))
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
        """Equal for all times between the same changes."""
        return bisect_right(self._times, start), bisect_right(self._times, end)

    def at(self, start: int, end: int) -> NodeGraph:
        """Return the graph of a time. It is valid until the next call."""
        now = self.state_of(start, end)
        if self._at is None:
            changed = set(range(len(self._objects)))
        else:
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
        """A pod as it was ever seen on a node, if it existed by then: what belongs to the node through it never changes."""
        history = self._cluster.history(POD, namespace, name)
        states = [effect.state for effect in history.effects if effect.state] if history is not None else []
        states.append(self._cluster.snapshot_object("", POD.kind, namespace, name))
        for pod in reversed(states):
            created = str(((pod or {}).get("metadata") or {}).get("creationTimestamp") or "")
            if pod and (pod.get("spec") or {}).get("nodeName") and created and created <= timestamp(start):
                return pod
        return None


class GraphAt(Struct, frozen=True):
    """The graph of one time."""

    states: GraphStates
    start: int
    end: int

    def has_path(self, start: Vertex, node: str) -> bool | Missing:
        """See `Graph`."""
        return self.states.at(self.start, self.end).has_path(start, node)
