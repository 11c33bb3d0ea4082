"""The chains of both sets at a time, built once for all requests between two changes of RBAC.

The CEL variable `authorizer` of policies uses them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Protocol

from msgspec import Struct, field

from replay.audit.event import RequestRecord
from replay.authorization.chain import DEFAULT_CONFIGURATION, WEBHOOK, AuthorizerChain, ChainBuilder
from replay.authorization.configuration import AuthorizationConfiguration
from replay.authorization.manifest import AuthorizationManifests, RBACKey, deleted_keys
from replay.authorization.node_authorizer import NodeGraph
from replay.authorization.state import (
    ChangingObject,
    GraphAt,
    GraphStates,
    Instants,
    RBACState,
    RBACStates,
    bound_pods,
    changing_objects,
    unchanging,
)
from replay.authorization.webhook import AuthorizerAnswers, NoAnswers
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.identity import IdentityMap
from replay.json import JSON
from replay.kube.attributes import Missing, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.rbac import CLUSTER_ROLE_BINDING, RBAC_KINDS, ROLE_BINDING
from replay.kube.rbac_authorizer import (
    NODE_PREFIX,
    Grants,
    RBACAuthorizer,
    RoleResolver,
    names_told_apart,
    unused_bindings,
)
from replay.on_demand import pl
from replay.reconstruct.cluster import Cluster, ClusterLister

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


def asks_graph(attributes: AuthorizationAttributes) -> bool:
    """Return whether a node requests an object of a kind that it may see only if the object belongs to it."""
    return attributes.resource in _READ_BY_NODES and attributes.user.username.startswith(NODE_PREFIX)


class AuthorizationSide(Struct, frozen=True):
    """One set: its chain, and the RBAC objects that it adds to the cluster's or deletes."""

    configuration: AuthorizationConfiguration
    rbac: tuple[JSON, ...] | None = None
    deleted: frozenset[RBACKey] = frozenset()


class Authorizers(Protocol):
    """The authorization of both sets, with the answers of their webhooks."""

    @property
    def sides(self) -> tuple[AuthorizationSide, AuthorizationSide]:
        """The baseline and the candidate."""

    @property
    def answers(self) -> AuthorizerAnswers:
        """The answers of the webhooks."""


def sides(
    manifests: Sequence[AuthorizationManifests], default: AuthorizationConfiguration = DEFAULT_CONFIGURATION
) -> tuple[AuthorizationSide, AuthorizationSide]:
    """Return both sets. `default` is the chain of a set without a configuration.

    A candidate without RBAC objects keeps those of the baseline. RBAC objects alone keep the chain.
    """
    current, candidate = manifests
    chain = current.configuration or default
    rbac = candidate.rbac if candidate.rbac is not None else current.rbac
    return (
        AuthorizationSide(chain, current.rbac),
        AuthorizationSide(
            # RBAC objects alone do not tell the chain, so that it stays as it is.
            candidate.configuration or (chain if candidate.alone else default),
            rbac,
            deleted_keys(current, candidate),
        ),
    )


StateKey = tuple[int, tuple[int, int]]
"""The number of the state of RBAC, and the instant of the node graph."""
NO_GRAPH = (-1, -1)
"""The instant of a state that does not need the node graph."""
_NO_NODE = NodeGraph()


class Chains(Struct, dict=True):
    """The chains of some sides over the time of a log. `writes` are the writes to objects of nodes.

    `began` is the time at which the first request of the log was received, in microseconds.
    """

    cluster: Cluster
    sides: Sequence[AuthorizationSide]
    answers: AuthorizerAnswers = field(default_factory=NoAnswers)
    versions: Sequence[KubernetesVersion] = ()
    """Version of the server of each side. Empty if all are the newest."""
    writes: Sequence[RequestRecord] = ()
    log_start: int = 0
    _rbac: dict[tuple[int, int], int] = field(default_factory=dict)
    _roles: list[tuple[RoleResolver, ...]] = field(default_factory=list)
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    _chains: dict[StateKey, tuple[AuthorizerChain, ...]] = field(default_factory=dict)

    def state_of(self, start: int, end: int, *, with_graph: bool) -> StateKey:
        """Return the state that decides a request, from its arrival to its stage.

        With the node graph only if it is needed (`asks_graph`).
        """
        instant = self._rbac_instants.state_of(start, end)
        rbac = self._rbac.get(instant)
        if rbac is None:
            rbac = self._rbac[instant] = self._rbac_number(start, end)
        return rbac, self._graph.state_of(start, end) if with_graph else NO_GRAPH

    def grants_of(self, state: StateKey, user: UserInfo, namespace: str) -> tuple[Grants, ...]:
        """Return the RBAC grants of a user in a namespace under each side. Equal grants are the same object."""
        first, *others = self._roles[state[0]]
        grants = first.grants(user, namespace)
        return (grants, *(grants if roles is first else roles.grants(user, namespace) for roles in others))

    def rbac_states(self, starts: pl.Series, ends: pl.Series) -> pl.Series:
        """Return the RBAC state numbers of many times: the first part of `state_of`."""
        first, last = self._rbac_instants.states_of(starts, ends)
        spans = pl.DataFrame({"first": first, "last": last, "start": starts, "end": ends})
        # Most times lie between the same two changes, so each pair of instants is resolved once.
        times = spans.unique(["first", "last"], keep="first", maintain_order=True)
        numbers = [self.state_of(start, end, with_graph=False)[0] for _, _, start, end in times.iter_rows()]
        states = times.select("first", "last", state=pl.Series(numbers, dtype=pl.Int64))
        return spans.join(states, on=["first", "last"], how="left", maintain_order="left")["state"]

    def reads_name(self, attributes: AuthorizationAttributes) -> bool:
        """Return whether a decision can depend on the object's name at any time."""
        return attributes.name in self._names or any(builder.reads_name(attributes) for builder in self._builders)

    @cached_property
    def _names(self) -> frozenset[str]:
        own = [obj for side in self.sides for obj in side.rbac or ()]
        constant = [value for _, value in self._constant]
        return names_told_apart([*own, *constant, *(value for each in self._changing for value in each.states)])

    def at(self, start: int, end: int, state: StateKey) -> tuple[AuthorizerChain, ...]:
        """Return the chain of every side for a request. `state` is the state of its time (`state_of`)."""
        chains = self._chains.get(state)
        if chains is None:
            chains = self._chains[state] = self._built(start, end, state)
        return chains

    def _rbac_number(self, start: int, end: int) -> int:
        """Return the number of the RBAC state of a time. Equal states have the same number."""
        values = [each.at(start, end) for each in self._changing]
        # Equal values are one object, which `ChangingObject` keeps.
        number = self._numbers.setdefault(tuple(map(id, values)), len(self._roles))
        if number == len(self._roles):
            self._roles.append(self._resolvers(self._changing_at(start, end)))
        return number

    def _changing_at(self, start: int, end: int) -> list[RBACState]:
        values = ((each.key, each.at(start, end)) for each in self._changing)
        return [(key, value) for key, value in values if value is not None]

    def objects_at(self, time: int) -> list[JSON]:
        """Return the RBAC objects of the baseline at a time, as far as they are known."""
        return self._states[0].objects_at(self._changing_at(time, time))

    def _resolvers(self, changing: Sequence[RBACState]) -> tuple[RoleResolver, ...]:
        resolvers = IdentityMap((states, states.at(changing)) for states in self._states)
        return tuple(resolvers[states] for states in self._states)

    def _built(self, start: int, end: int, state: StateKey) -> tuple[AuthorizerChain, ...]:
        rbac, instant = state
        graph = GraphAt(self._graph, start, end) if instant != NO_GRAPH else _NO_NODE
        return tuple(
            builder.build(roles, graph) for builder, roles in zip(self._builders, self._roles[rbac], strict=True)
        )

    def unused_bindings(self) -> list[str]:
        """Return the bindings of the baseline that have allowed nothing so far, as `Kind namespace/name`."""
        states = self._states[0]
        kinds = (CLUSTER_ROLE_BINDING, ROLE_BINDING)
        bindings = [each for kind in kinds for each in states.lister.list(kind, None) if isinstance(each, dict)]
        unused = unused_bindings(states.base, bindings)
        return [f"{kind} {f'{namespace}/' if namespace else ''}{name}" for kind, namespace, name in unused]

    @cached_property
    def _states(self) -> tuple[RBACStates, ...]:
        """RBAC under each side. Sides with the same RBAC share one object."""
        distinct: list[RBACStates] = []
        for side in self.sides:
            same = next((n for n, each in enumerate(self.sides[: len(distinct)]) if _has_equal_rbac(each, side)), None)
            own = RBACStates(self.cluster, self._constant, side.rbac, side.deleted) if same is None else distinct[same]
            distinct.append(own)
        return tuple(distinct)

    @cached_property
    def _builders(self) -> tuple[ChainBuilder, ...]:
        servers = zip(self.sides, self.versions or (NEWEST,) * len(self.sides), strict=True)
        return tuple(ChainBuilder(side.configuration, self.answers, version) for side, version in servers)

    @cached_property
    def _constant(self) -> list[RBACState]:
        return list(unchanging(self.cluster, RBAC_KINDS, self.log_start))

    @cached_property
    def _changing(self) -> list[ChangingObject]:
        return changing_objects(self.cluster, RBAC_KINDS, self.log_start)

    @cached_property
    def _rbac_instants(self) -> Instants:
        return Instants(write for each in self._changing for write in each.writes)

    @cached_property
    def _graph(self) -> GraphStates:
        return GraphStates(self.cluster, bound_pods(self.writes), self.log_start)


def _has_equal_rbac(one: AuthorizationSide, other: AuthorizationSide) -> bool:
    return one.rbac is other.rbac and one.deleted == other.deleted


_DIFFERENT = Missing("authorizer", "the authorizers of baseline and candidate decide differently")


class SetLister(Struct, frozen=True):
    """The view that a set has of the cluster, with the time and the number of the set, for its authorizers."""

    lister: Lister
    at: ClusterLister
    number: int

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        return self.lister.get(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        return self.lister.list(kind, namespace)


def view_of_set(number: int, lister: Lister, lister_seen: Lister) -> Lister:
    """Return the view of the set with this number. Its own authorizers answer."""
    return SetLister(lister_seen, lister, number) if isinstance(lister, ClusterLister) else lister_seen


def policy_authorizer(chains: Chains) -> Callable[[Lister], Authorizer | Missing]:
    """Return the authorizer at the time of a lister: the chain of the set of a `SetLister`.

    Without a set, both chains must agree. Otherwise the answer is unknown.
    """

    def at(lister: Lister) -> Authorizer:
        if isinstance(lister, SetLister):
            return _ChainsAt(chains, lister.at, lister.number)
        return _ChainsAt(chains, lister) if isinstance(lister, ClusterLister) else RBACAuthorizer(lister)

    return at


class _ChainsAt:
    """The authorizer of one set, or of both, at one time."""

    def __init__(self, chains: Chains, lister: ClusterLister, number: int | None = None) -> None:
        self._chains = chains
        self._lister = lister
        self._number = number

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """See `Authorizer`."""
        start, end = self._lister.start, self._lister.end
        state = self._chains.state_of(start, end, with_graph=asks_graph(attributes))
        chains = self._chains.at(start, end, state)
        if self._number is not None:
            return chains[self._number].authorize(attributes)
        answers = [chain.authorize(attributes) for chain in chains]
        return answers[0] if all(answer == answers[0] for answer in answers) else _DIFFERENT


def webhook_names(configurations: Iterable[AuthorizationConfiguration]) -> dict[str, int]:
    """Return the webhooks of some chains with their timeouts in nanoseconds. The longest counts if they differ."""
    timeouts: dict[str, int] = {}
    for configuration in configurations:
        for each in configuration.authorizers:
            if each.type == WEBHOOK and each.webhook is not None:
                timeouts[each.name] = max(timeouts.get(each.name, 0), each.webhook.timeout)
    return timeouts
