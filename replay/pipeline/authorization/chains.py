"""The chains of both sets as of a time, made once for all requests between two changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from replay.audit.event import RequestRecord
from replay.authorization.build import DEFAULT_CONFIGURATION, ChainBuilder
from replay.authorization.chain import Chain
from replay.authorization.configuration import AuthorizationConfiguration
from replay.authorization.manifest import AuthorizationManifests, RBACKey, deleted_keys
from replay.authorization.node_graph import NodeGraph
from replay.authorization.webhook import NoAnswers, WebhookAnswers
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.lister import ObjectLister
from replay.kube.rbac import CLUSTER_ROLE_BINDING, ROLE_BINDING, Grants, RoleResolver, unused_bindings
from replay.pipeline.authorization.rbac_state import ChangingObject, RBACStates, changing_objects, unchanging
from replay.pipeline.authorization.state import (
    RBAC_KINDS,
    Instants,
    State,
    graph_lister,
)
from replay.reconstruct.cluster import Cluster, ClusterLister

_GRAPH_RESOURCES = frozenset(
    ["pods", "persistentvolumes", "volumeattachments", "resourceslices", "podcertificaterequests"]
)


@dataclass(frozen=True)
class Side:
    """One set: its chain, and what it lays over the RBAC of the cluster."""

    configuration: AuthorizationConfiguration
    rbac: tuple[JSON, ...] | None = None
    deleted: frozenset[RBACKey] = frozenset()


class Authorizers(Protocol):
    """Both sets as they decide, and who answers for their webhooks."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """The current and the candidate set."""

    @property
    def answers(self) -> WebhookAnswers:
        """The answers of webhooks."""


def sides(
    manifests: Sequence[AuthorizationManifests], default: AuthorizationConfiguration = DEFAULT_CONFIGURATION
) -> tuple[Side, Side]:
    """Both sets; `default` is the chain of one without a configuration.

    A candidate that says nothing about RBAC leaves that of the current set in place, and RBAC objects alone leave the chain.
    """
    current, candidate = manifests
    chain = current.configuration or default
    rbac = candidate.rbac if candidate.rbac is not None else current.rbac
    return (
        Side(chain, current.rbac),
        Side(
            candidate.configuration or (chain if candidate.alone else default), rbac, deleted_keys(current, candidate)
        ),
    )


StateKey = tuple[int, tuple[int, int]]
"""The number of the RBAC objects, and the instant of what belongs to nodes."""
_NO_GRAPH = (-1, -1)


@dataclass
class Chains:
    """The chains of some sides over the time of a log; `writes` are those to what belongs to nodes.

    `began` is when the first request of the log was received, in microseconds.
    """

    cluster: Cluster
    sides: Sequence[Side]
    answers: WebhookAnswers = field(default_factory=NoAnswers)
    version: KubernetesVersion = NEWEST
    writes: Sequence[RequestRecord] = ()
    began: int = 0
    _rbac: dict[tuple[int, int], int] = field(default_factory=dict)
    _roles: list[tuple[RoleResolver, ...]] = field(default_factory=list)
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    _graphs: dict[tuple[int, int], NodeGraph] = field(default_factory=dict)
    _chains: dict[StateKey, tuple[Chain, ...]] = field(default_factory=dict)

    def state_of(self, start: int, end: int, *, of_node: bool) -> StateKey:
        """Which state decides a request, from its arrival to its stage; what belongs to nodes counts for nodes alone."""
        instant = self._rbac_instants.state_of(start, end)
        rbac = self._rbac.get(instant)
        if rbac is None:
            rbac = self._rbac[instant] = self._rbac_number(start, end)
        return rbac, self._graph_instants.state_of(start, end) if of_node else _NO_GRAPH

    def grants_of(self, state: StateKey, user: UserInfo, namespace: str) -> tuple[Grants, ...]:
        """What RBAC gives a user in a namespace under each side: the same objects wherever it is the same."""
        return tuple(roles.grants(user, namespace) for roles in self._roles[state[0]])

    def at(self, start: int, end: int, state: StateKey) -> tuple[Chain, ...]:
        """The chain of every side for a request; `state` is that of the time (`state_of`)."""
        found = self._chains.get(state)
        if found is None:
            found = self._chains[state] = self._built(start, end, state)
        return found

    def _rbac_number(self, start: int, end: int) -> int:
        """The number of the RBAC objects of a time; equal ones have the same."""
        values = [each.at(start, end) for each in self._changing]
        # Equal values are one object, which `ChangingObject` keeps.
        number = self._numbers.setdefault(tuple(map(id, values)), len(self._roles))
        if number == len(self._roles):
            keyed = zip(self._changing, values, strict=True)
            changing = [(each.key, value) for each, value in keyed if value is not None]
            self._roles.append(self._resolvers(changing))
        return number

    def _resolvers(self, changing: Sequence[State]) -> tuple[RoleResolver, ...]:
        made = {id(states): states.at(changing) for states in self._states}
        return tuple(made[id(states)] for states in self._states)

    def _built(self, start: int, end: int, state: StateKey) -> tuple[Chain, ...]:
        rbac, instant = state
        graph = self._graphs.get(instant)
        if graph is None:
            lister = ClusterLister(self.cluster, start, end)
            is_asked = instant != _NO_GRAPH
            graph = NodeGraph(graph_lister(lister, self._bindings) if is_asked else ObjectLister(()))
            self._graphs[instant] = graph
        return tuple(
            builder.build(roles, graph) for builder, roles in zip(self._builders, self._roles[rbac], strict=True)
        )

    def unused_bindings(self) -> list[str]:
        """The bindings of the current set that allowed nothing so far, as `Kind namespace/name`."""
        states = self._states[0]
        kinds = (CLUSTER_ROLE_BINDING, ROLE_BINDING)
        bindings = [each for kind in kinds for each in states.lister.list(kind, None) if isinstance(each, dict)]
        unused = unused_bindings(states.base, bindings)
        return [f"{kind} {f'{namespace}/' if namespace else ''}{name}" for kind, namespace, name in unused]

    @cached_property
    def _states(self) -> tuple[RBACStates, ...]:
        """RBAC under each side, one object for sides that say the same."""
        made: list[RBACStates] = []
        for side in self.sides:
            same = next((n for n, each in enumerate(self.sides[: len(made)]) if _same_rbac(each, side)), None)
            own = RBACStates(self.cluster, self._constant, side.rbac, side.deleted) if same is None else made[same]
            made.append(own)
        return tuple(made)

    @cached_property
    def _builders(self) -> tuple[ChainBuilder, ...]:
        return tuple(ChainBuilder(side.configuration, self.answers, self.version) for side in self.sides)

    @cached_property
    def _constant(self) -> list[State]:
        return list(unchanging(self.cluster, RBAC_KINDS, self.began))

    @cached_property
    def _changing(self) -> list[ChangingObject]:
        return changing_objects(self.cluster, RBAC_KINDS, self.began)

    @cached_property
    def _rbac_instants(self) -> Instants:
        return Instants(write for each in self._changing for write in each.writes)

    @cached_property
    def _graph_instants(self) -> Instants:
        """Of the writes to what belongs to nodes; those that were refused change nothing."""
        writes = (record for record in self.writes if record.resource in _GRAPH_RESOURCES)
        return Instants((each.received, each.stage_time) for each in writes if not 300 <= each.code < 500)

    @cached_property
    def _bindings(self) -> Mapping[tuple[str, str], int]:
        """The pods that the log shows to be bound, and from when on."""
        return {
            (record.namespace, record.name): record.received
            for record in self.writes
            if record.resource == "pods" and record.subresource == "binding" and 200 <= record.code < 300
        }


def _same_rbac(one: Side, other: Side) -> bool:
    return one.rbac is other.rbac and one.deleted == other.deleted
