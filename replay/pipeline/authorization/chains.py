"""The chains of both sets as of a time, made once for all requests between two changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from replay.audit.event import RequestRecord
from replay.authorization.build import DEFAULT_CONFIGURATION, ChainBuilder
from replay.authorization.chain import Chain
from replay.authorization.configuration import AuthorizationConfiguration
from replay.authorization.manifest import AuthorizationManifests, RBACKey, deleted_keys
from replay.authorization.node.graph import NodeGraph
from replay.authorization.webhook import NoAnswers, WebhookAnswers
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.rbac.authorizer import (
    CLUSTER_ROLE_BINDING,
    NODE_PREFIX,
    ROLE_BINDING,
    Grants,
    RoleResolver,
    unused_bindings,
)
from replay.pipeline.authorization.changing import ChangingObject, changing_objects, unchanging
from replay.pipeline.authorization.graph_state import GraphAt, GraphStates, bound_pods
from replay.pipeline.authorization.rbac_state import RBACStates
from replay.pipeline.authorization.state import RBAC_KINDS, Instants, State
from replay.reconstruct.cluster import Cluster

_READ_BY_NODES = frozenset(
    [
        *(
            "secrets",
            "configmaps",
            "persistentvolumeclaims",
            "persistentvolumes",
            "resourceclaims",
            "volumeattachments",
        ),
        *("serviceaccounts", "resourceslices", "podcertificaterequests", "pods"),
    ]
)


def asks_graph(asked: AuthorizationAttributes) -> bool:
    """Whether a node asks for something of which it may see what belongs to it."""
    return asked.resource in _READ_BY_NODES and asked.user.username.startswith(NODE_PREFIX)


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
NO_GRAPH = (-1, -1)
"""Stands for the instant where nobody looks at what belongs to nodes."""
_NO_NODE = NodeGraph()


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
    _chains: dict[StateKey, tuple[Chain, ...]] = field(default_factory=dict)

    def state_of(self, start: int, end: int, *, with_graph: bool) -> StateKey:
        """Which state decides a request, from its arrival to its stage; what belongs to nodes counts where it is asked for (`asks_graph`)."""
        instant = self._rbac_instants.state_of(start, end)
        rbac = self._rbac.get(instant)
        if rbac is None:
            rbac = self._rbac[instant] = self._rbac_number(start, end)
        return rbac, self._graph.state_of(start, end) if with_graph else NO_GRAPH

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
        graph = GraphAt(self._graph, start, end) if instant != NO_GRAPH else _NO_NODE
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
    def _graph(self) -> GraphStates:
        return GraphStates(self.cluster, bound_pods(self.writes), self.began)


def _same_rbac(one: Side, other: Side) -> bool:
    return one.rbac is other.rbac and one.deleted == other.deleted
