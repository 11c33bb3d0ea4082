"""The admission chain of a shard: each request is decided by the policies of one workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct, field

from replay.admission.chain import Chain
from replay.admission.decision import Decision, Undetermined, Verdict
from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.ordered.registry import SHARD_ORDERED_PLUGINS
from replay.admission.webhook.plugin import Backends
from replay.audit.event import RequestRecord
from replay.cellib.version import Versions
from replay.json import JSON
from replay.kcp.annotation import NO_CLUSTER
from replay.kcp.binding import NO_WORKSPACE, DecidedIn
from replay.kcp.shard.cluster import ShardCluster
from replay.kcp.shard.planned import NO_CHANGE, Rebinding, Workspaces
from replay.kcp.shard.timeline import NOTHING_PLANNED, Planned, PolicyTimeline, Sides, named
from replay.kcp.user import UnknownRolesAuthorizer
from replay.kube.admissionregistration import Sets
from replay.kube.attributes import Attributes, Missing
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource, GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.overlay import Overlay
from replay.kube.schema import Schemas
from replay.manifests.api_object import defaulted_api_objects
from replay.reconstruct.cluster import NAMESPACE, ClusterLister

_NO_BACKENDS: Backends = {}
_GIVE_ANNOTATION = "keep the annotations of events where the log is collected"
_GIVE_POLICIES = "give a set or a snapshot with the policies of the workspace"


class Instant(NamedTuple):
    """Workspace and time of a request, in microseconds."""

    workspace: str
    start: int
    end: int


class Deciders(NamedTuple):
    """The logical clusters whose policies decide about a request in the baseline, and with the candidate's bindings."""

    current: str
    planned: str | Missing

    @property
    def candidate(self) -> str:
        """The cluster of the candidate's policies.

        If it is unknown, it is the baseline's, whose answer then does not count.
        """
        return self.current if isinstance(self.planned, Missing) else self.planned


class RequestChain(Struct, frozen=True):
    """Chain that may have decided a request, with its lookups and sets.

    `unknown` says why the candidate is unknown.
    """

    chain: Chain
    lister: Lister
    sides: Sides
    unknown: Missing | None = None

    def decide(self, original: Attributes | Missing, attributes: Attributes, backends: Backends) -> list[Decision]:
        """See `Chain.decide`."""
        decisions = self.chain.decide(original, attributes, self.lister, backends)
        return decisions if self.unknown is None else [decisions[0], _undetermined(self.unknown)]

    def validated(self, original: Attributes | Missing, attributes: Attributes, backends: Backends) -> list[Attributes]:
        """See `Chain.validated`."""
        attributes_validated = self.chain.validated(original, attributes, self.lister, backends)
        if self.unknown is None:
            return attributes_validated
        return [
            attributes_validated[0],
            attributes.with_object(Missing("object", self.unknown.reason, self.unknown.fix)),
        ]


def _undetermined(unknown: Missing) -> Decision:
    return Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("", "", unknown.reason, "", unknown.fix),))


class ShardChain(Struct, dict=True):
    """A `Chain` for a shard, with the methods that a replay calls."""

    cluster: ShardCluster
    workspaces: Workspaces
    versions: Versions
    distinct_sets: Callable[[Sets], Sets]
    """Returns the parts of a workspace's sets that run."""
    policies: frozenset[str] = frozenset()
    """Names of all policies of the baseline, whose decisions are compared with the log."""
    _timelines: dict[str, PolicyTimeline | Missing] = field(default_factory=dict)
    _chains: dict[tuple[Deciders, str, int], tuple[Chain, Sides]] = field(default_factory=dict)
    _joined: dict[tuple[int, int], tuple[Sides, Sides, Sides]] = field(default_factory=dict)

    def decide(
        self, original: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends = _NO_BACKENDS
    ) -> list[Decision]:
        """See `Chain.decide`. If several sets may have been in force, the decision is certain only if all agree."""
        alternatives = self.alternatives(original, attributes, lister, backends)
        if all(each == alternatives[0] for each in alternatives[1:]):
            return alternatives[0]
        return self.undetermined("another request changed policies of the workspace at the same time")

    def alternatives(
        self, original: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends = _NO_BACKENDS
    ) -> list[list[Decision]]:
        """Return the decisions of all sets that may have been in force, each in the form of `Chain.decide`."""
        chains = self.chains(attributes, lister)
        if isinstance(chains, Missing):
            return [self.undetermined(chains.reason, chains.fix)]
        return [each.decide(original, attributes, backends) for each in chains]

    def validated(
        self, original: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends = _NO_BACKENDS
    ) -> list[Attributes]:
        """See `Chain.validated`."""
        chains = self.chains(attributes, lister)
        if isinstance(chains, Missing):
            return [attributes.with_object(Missing("object", chains.reason, chains.fix))] * 2
        return chains[-1].validated(original, attributes, backends)

    @cached_property
    def patchers(self) -> ObjectPatchers:
        """Return the patchers for objects of any workspace."""
        return ObjectPatchers(Schemas(self.cluster.crds))

    def policy_workspace(self, attributes: Attributes, lister: Lister) -> str | Missing:
        """Return the logical cluster whose policies decide about a request."""
        at = instant_of(lister, attributes.workspace)
        if not at.workspace:
            return Missing("", NO_CLUSTER, _GIVE_ANNOTATION)
        return self.cluster.policy_workspace(at.workspace, attributes.resource.group_resource, at.start, at.end)

    def reading_parameters(self, attributes: Attributes, lister: Lister) -> frozenset[str]:
        """Return the names of the policies with parameters among those that may have decided a request."""
        chains = self.chains(attributes, lister)
        names: set[str] = set()
        for each in () if isinstance(chains, Missing) else chains:
            names.update(policy.name for policy in each.sides.current.policies if policy.param_kind is not None)
        return frozenset(names)

    def deciders(self, at: Instant, resource: GroupResource) -> Deciders | Missing:
        """Return the logical clusters whose policies decide about a resource."""
        if not at.workspace:
            return Missing("", NO_CLUSTER, _GIVE_ANNOTATION)
        own = self.cluster.policy_workspace(at.workspace, resource, at.start, at.end)
        if isinstance(own, Missing):
            return own
        return Deciders(own, self._rebinding.policy_workspace(own, at.workspace, resource, at.start, at.end))

    @cached_property
    def _rebinding(self) -> Rebinding:
        return Rebinding(self.cluster, self.workspaces)

    def workspaces_of(self, record: RequestRecord) -> DecidedIn:
        """Return the workspaces of a request and of the policies that decide about it."""
        if not record.workspace:
            return NO_WORKSPACE
        names = self.workspaces.names
        at = Instant(record.workspace, record.received, record.stage_time)
        own = self.deciders(at, GroupResource(record.api_group, record.resource))
        if isinstance(own, Missing):
            return DecidedIn(names.path(record.workspace))
        planned = "" if isinstance(own.planned, Missing) else names.path(own.planned)
        return DecidedIn(names.path(record.workspace), names.path(own.current), planned)

    def chains(self, attributes: Attributes, lister: Lister) -> Sequence[RequestChain] | Missing:
        """Return the chains that may have decided a request, the one with the earliest set first."""
        at = instant_of(lister, attributes.workspace)
        whose = self.deciders(at, attributes.resource.group_resource)
        if isinstance(whose, Missing):
            return whose
        sides = self._sets_at(whose.current, at)
        if isinstance(sides, Missing):
            return sides
        planned = sides if whose.candidate == whose.current else self._sets_at(whose.candidate, at)
        if isinstance(planned, Missing):
            whose, planned = Deciders(whose.current, planned), sides
        unknown = whose.planned if isinstance(whose.planned, Missing) else None
        # The sets of one workspace change together, those of two workspaces independently.
        pairs = sides if planned is sides else [self._join(one, other) for one in sides for other in planned]
        base_lister = self._lister(whose.current, at, lister)
        return [RequestChain(self._chain(whose, at.workspace, each), base_lister, each, unknown) for each in pairs]

    def _sets_at(self, workspace: str, at: Instant) -> list[Sides] | Missing:
        """Return the sets of a workspace that may have been in force."""
        timeline = self.timeline(workspace)
        return timeline if isinstance(timeline, Missing) else timeline.at(at.start, at.end)

    def _join(self, current: Sides, planned: Sides) -> Sides:
        """Return the baseline of one workspace with the candidate of another."""
        key = id(current), id(planned)
        if key not in self._joined:
            # Both are kept alive, because the key has their ids.
            self._joined[key] = Sides(current.current, planned.candidate), current, planned
        return self._joined[key][0]

    def timeline(self, workspace: str) -> PolicyTimeline | Missing:
        """Return the policies of a workspace over time, `Missing` if neither set, snapshot nor log shows them."""
        timeline = self._timelines.get(workspace)
        if timeline is None:
            timeline = self._timelines[workspace] = self._timeline(workspace)
        return timeline

    def _timeline(self, workspace: str) -> PolicyTimeline | Missing:
        cluster, sets = self.cluster.in_workspace(workspace), self.workspaces
        own_policies = sets.current.get(workspace)
        if own_policies is None and not cluster.snapshot and not self.cluster.is_born(workspace):
            name = sets.names.path(workspace)
            return Missing("", f"the policies of workspace {name} are not known", _GIVE_POLICIES)
        current = None if own_policies is None else named(own_policies)
        planned = NOTHING_PLANNED
        if workspace in sets.candidate:
            policies_before_plan = current if current is not None else self._snapshot_objects(workspace)
            planned = Planned.from_objects(policies_before_plan, named(sets.candidate[workspace]))
        return PolicyTimeline(cluster, current, planned, self.versions.current)

    def _snapshot_objects(self, workspace: str) -> dict[tuple[str, str], JSON]:
        return named(defaulted_api_objects(self.cluster.in_workspace(workspace).snapshot, self.versions.current))

    def _chain(self, whose: Deciders, target: str, sides: Sides) -> Chain:
        changes = self.workspaces.changes
        namespaces = changes.get(target, NO_CHANGE).namespaces
        # The target matters only if the candidate changes its namespaces.
        key = whose, target if namespaces else "", id(sides)
        entry = self._chains.get(key)
        if entry is None:
            overlay = namespaces.over(changes.get(whose.candidate, NO_CHANGE).lookups)
            clusters = dict.fromkeys((whose.current, whose.candidate))
            chain = Chain(
                self.distinct_sets((sides.current, sides.candidate)),
                self.versions.current,
                Discovery(each for cluster in clusters for each in self.cluster.discovery_of(cluster)),
                Schemas([crd for cluster in clusters for crd in self.cluster.crds_of(cluster)]),
                authorizer=UnknownRolesAuthorizer,
                view_of_set=self._asked_by(whose.candidate, target, overlay) if len(clusters) > 1 else None,
                plugins=SHARD_ORDERED_PLUGINS,
                overlays=None if overlay.is_empty else (Overlay(), overlay),
                versions=self.versions,
            )
            entry = self._chains[key] = chain, sides  # the sets are kept alive, because the key has their ids
        return entry[0]

    def _asked_by(self, planned: str, target: str, overlay: Overlay) -> Callable[[int, Lister, Lister], Lister]:
        """Return the lookups of a numbered set, if the candidate's policies are in another workspace."""

        def seen(index: int, lister: Lister, own: Lister) -> Lister:
            origin = lister.origin if isinstance(lister, PolicyLister) else lister
            return overlay.lister(self._lister(planned, instant_of(origin, target), origin)) if index else own

        return seen

    def _lister(self, workspace: str, at: Instant, lister: Lister) -> Lister:
        """Return a lister with parameters of the policies' workspace and the namespace of the request."""
        if workspace == at.workspace:
            return lister
        if not self.is_followed(workspace):
            return PolicyLister(lister, UnknownWorkspaceLister(self.workspaces.names.path(workspace)))
        return PolicyLister(lister, ClusterLister(self.cluster.in_workspace(workspace), at.start, at.end))

    def is_followed(self, workspace: str) -> bool:
        """Return whether the log holds all writes to a workspace."""
        own = self.workspaces
        return workspace in own.heard and not self.cluster.has_gaps(workspace, own.log_start)

    @cached_property
    def _changes(self) -> bool:
        """Return whether the candidate changes any workspace."""
        return (
            self.workspaces.is_rehearsed
            or bool(self.workspaces.changes)
            or any(
                not Planned.from_objects(named(self.workspaces.current.get(workspace, ())), named(policies)).is_nothing
                for workspace, policies in self.workspaces.candidate.items()
            )
        )

    def undetermined(self, reason: str, fix: str = "") -> list[Decision]:
        """Return undetermined decisions of both sets."""
        unknown = Missing("", reason, fix)
        current = _undetermined(unknown)
        # One object for both sets shows that they do not differ.
        return [current, _undetermined(unknown) if self._changes else current]

    def everything(self, *, planned: bool) -> Iterator[JSON]:
        """Yield all policies of all workspaces in the baseline, or in the candidate."""
        for workspace in sorted({*self.cluster.workspaces, *self.workspaces.current, *self.workspaces.candidate}):
            timeline = self.timeline(workspace)
            if not isinstance(timeline, Missing):
                yield from timeline.everything(planned=planned)


def instant_of(lister: Lister, workspace: str) -> Instant:
    """Return a lister's time, without overlays."""
    while not isinstance(lister, ClusterLister):
        lister = lister.origin  # type: ignore[attr-defined]
    return Instant(workspace, lister.start, lister.end)


class PolicyLister:
    """Lookups of one workspace's policies about a request to another."""

    def __init__(self, target: Lister, policy: Lister) -> None:
        """`target` has the namespace of the request, `policy` everything else."""
        self.origin = target
        self._policy = policy

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        return (self.origin if kind == NAMESPACE else self._policy).get(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        return (self.origin if kind == NAMESPACE else self._policy).list(kind, namespace)


class UnknownWorkspaceLister:
    """Workspace without events in the log. Writes to it are unknown."""

    def __init__(self, name: str) -> None:
        """`name` is the path of the workspace."""
        self._name = name

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> Missing:
        """See `Lister.get`."""
        del namespace, name
        return self._missing(kind)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Missing:
        """See `Lister.list`."""
        del namespace
        return self._missing(kind)

    def _missing(self, kind: GroupVersionKind) -> Missing:
        reason = f"the log lacks the events of workspace {self._name}, so writes there are not known"
        return Missing(kind.kind, reason, "give the log of the shard that holds it")
