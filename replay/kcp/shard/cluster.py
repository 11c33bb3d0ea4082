"""Logical clusters of a kcp shard, each with its own objects, kinds and history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from replay.audit.event import CREATED, RequestRecord
from replay.json import JSON
from replay.kcp.annotation import workspace_of
from replay.kcp.binding import (
    API_BINDING,
    API_RESOURCE_SCHEMA,
    LOGICAL_CLUSTER,
    APIBindings,
    bound_from,
    crd_of_schema,
    is_local,
    is_system,
    schema_names,
    system_resources,
)
from replay.kcp.mutation import REQUIRED_GROUPS
from replay.kube.admissionregistration import GROUP, KINDS
from replay.kube.attributes import Missing
from replay.kube.discovery import Discovery, builtin_discovery, custom_resources
from replay.kube.gvk import GroupResource, GroupVersionKind, ObjectRef
from replay.kube.schema import Schemas
from replay.reconstruct.cluster import CACHE_DELAY, Cluster, ClusterLister, Writes, key_of
from replay.reconstruct.history.clock import RevisionClock
from replay.reconstruct.history.collection_deletion import CollectionDeletions
from replay.reconstruct.history.derived import instant
from replay.reconstruct.history.history import History
from replay.reconstruct.record.known import get

_NO_DELETIONS = CollectionDeletions()
_ALWAYS_WRITTEN = frozenset(
    {
        ("", "Namespace"),
        ("apis.kcp.io", "APIBinding"),
        *((GROUP, kind) for kind in KINDS),
    }
)
"""Kinds whose writes are in every log that holds decisions."""
_GIVE_BINDINGS = "give a snapshot with the objects of the workspace"
_GIVE_APIBINDINGS = "add the workspace's APIBindings to the snapshot (`kubectl get apibindings -o yaml`)"
_GIVE_DEFINITION = "add the APIBindings of that time, or the CustomResourceDefinition, to the snapshot"


class ShardDiscovery(Discovery):
    """All kinds that a shard serves. `of` returns those of a workspace."""

    def __init__(self, cluster: ShardCluster) -> None:
        """`cluster` knows the kinds of each workspace."""
        super().__init__([*builtin_discovery(), *system_resources(), *custom_resources(cluster.crds)])
        self._cluster = cluster

    def in_workspace(self, workspace: str) -> Discovery:
        """Return the kinds that a workspace serves."""
        return self._cluster.discovery_of(workspace)


class ShardCluster(Cluster):
    """All logical clusters of a shard, and the objects outside of them."""

    def __init__(
        self,
        snapshot: Iterable[JSON] = (),
        records: Writes | None = None,
        clock: RevisionClock | None = None,
        timed: Callable[[RequestRecord], RequestRecord] | None = None,
        deletions: CollectionDeletions = _NO_DELETIONS,
    ) -> None:
        """See `Cluster`. Objects of the snapshot name their workspace in an annotation."""
        self._snapshots: dict[str, list[JSON]] = {}
        for obj in snapshot:
            self._snapshots.setdefault(workspace_of(obj), []).append(obj)
        self._written_in: dict[str, set[ObjectRef]] = {}
        self._all = records if records is not None else {}
        for key in self._all:
            self._written_in.setdefault(key.workspace, set()).add(key)
        self._own: dict[str, Cluster] = {}
        self._bound: dict[str, Discovery] = {}
        self._schemas_in: dict[str, Schemas] = {}
        self._gaps: dict[str, bool] = {}
        self._definitions: dict[str, set[GroupResource]] = {}
        self._clock, self._time = clock, timed
        super().__init__(self._snapshots.get("", ()), self._writes_of(""), clock, timed, deletions)
        self.snapshot = [obj for objects in self._snapshots.values() for obj in objects]
        self.discovery = ShardDiscovery(self)

    def _writes_of(self, workspace: str) -> Writes:
        return _WritesOf(self._all, self._written_in.get(workspace, set()))

    @property
    def workspaces(self) -> Collection[str]:
        """Return the known logical clusters."""
        return (self._snapshots.keys() | self._written_in.keys()) - {""}

    def in_workspace(self, workspace: str) -> Cluster:
        """See `Cluster.in_workspace`."""
        if not workspace:
            return self
        cluster = self._own.get(workspace)
        if cluster is None:
            objects, writes = self._snapshots.get(workspace, ()), self._writes_of(workspace)
            cluster = Cluster(objects, writes, self._clock, self._time, self.deletions)
            self._own[workspace] = cluster
        return cluster

    def at(self, record: RequestRecord) -> ClusterLister:
        """See `Cluster.at`: returns the cluster of the request's workspace."""
        return ClusterLister(self.in_workspace(record.workspace), record.received, record.stage_time)

    def discovery_of(self, workspace: str) -> Discovery:
        """Return the kinds of a workspace: its own, those that it exports, and those that it ever bound."""
        discovery = self._bound.get(workspace)
        if discovery is None:
            own = custom_resources(self.crds_of(workspace))
            discovery = self._bound[workspace] = Discovery([*builtin_discovery(), *system_resources(), *own])
        return discovery

    def crds_of(self, workspace: str) -> list[JSON]:
        """Return the definitions of a workspace's custom kinds.

        They are its own, those of its exports, and those that it binds.
        """
        crds = [crd_of_schema(schema) for schema in self._states(workspace, API_RESOURCE_SCHEMA)]
        for binding in self._states(workspace, API_BINDING):
            source = str((binding.get("status") or {}).get("apiExportClusterName") or "")
            names = set(schema_names(binding))
            for schema in self._states(source, API_RESOURCE_SCHEMA) if names else ():
                crds += [crd_of_schema(schema)] if (schema.get("metadata") or {}).get("name") in names else []
        return [*crds, *self.in_workspace(workspace).crds]

    @property
    def crds(self) -> list[JSON]:
        """Return the CustomResourceDefinitions of all workspaces."""
        return [crd for workspace in sorted(self.workspaces) for crd in self.crds_of(workspace)]

    def schemas_of(self, workspace: str) -> Schemas:
        """See `Cluster.schemas_of`."""
        schemas = self._schemas_in.get(workspace)
        if schemas is None:
            schemas = self._schemas_in[workspace] = Schemas(self.crds_of(workspace))
        return schemas

    def api_objects(self) -> list[JSON]:
        """Return nothing: policies depend on the workspace."""
        return []

    def _states(self, workspace: str, kind: GroupVersionKind) -> list[JSON]:
        """Return all states of a kind's objects, in order, in any version."""
        cluster, states_of_kind = self.in_workspace(workspace), []
        # A binding without status names no workspace.
        if not workspace:
            return []
        for key in cluster.keys(kind):
            history = cluster.history(kind, key[2], key[3])
            states = [effect.state for effect in history.effects if isinstance(effect.state, dict)] if history else []
            states_of_kind += states
        return states_of_kind

    def is_born(self, workspace: str) -> bool:
        """Return whether the log shows the beginning of a workspace and so holds all writes to it.

        System workspaces count too.
        """
        if is_system(workspace):
            return True
        cluster = self.in_workspace(workspace)
        for key in cluster.keys(LOGICAL_CLUSTER):
            writes = cluster.writes(LOGICAL_CLUSTER, key[2], key[3])
            if any(record.verb == "create" and record.code == CREATED for record in writes):
                return True
        return False

    def has_gaps(self, workspace: str, began: int) -> bool:
        """Return whether a log that begins at `began` (microseconds) lacks writes to a workspace.

        It does if the snapshot holds an object that was created since, of a looked-up kind, whose creation the log does
        not show.
        """
        has_gaps = self._gaps.get(workspace)
        if has_gaps is None:
            cluster = self.in_workspace(workspace)
            has_gaps = self._gaps[workspace] = any(_is_unseen(cluster, obj, began) for obj in cluster.snapshot)
        return has_gaps

    def is_settled(self, kind: GroupVersionKind, at: int) -> bool:
        """Return False: objects of all workspaces are never known."""
        del kind, at
        return False

    def policy_workspace(self, workspace: str, resource: GroupResource, start: int, end: int) -> str | Missing:
        """Return the workspace whose policies decide about a resource at a time (microseconds).

        A served resource is bound if any APIBinding bound it then, since a workspace cannot have a second resource of
        that name. A resource that is neither built in nor bound needs a definition in the workspace. Without one the
        workspace is unknown.
        """
        if is_local(resource) or is_system(workspace):
            return workspace
        bindings = self.bindings(workspace, start, end)
        states = [state for each in bindings.states for state in each if not isinstance(state, Missing)]
        sources = {bound_from(state, resource) for state in states} - {""}
        if len(sources) == 1:
            return sources.pop()
        if sources:
            return Missing("", f"another request changed the APIBinding of {resource} at the same time")
        # A binding would take the place of the own definition, so all bindings must be known.
        is_own = resource in self.defined(workspace)
        return workspace if bindings.are_known and is_own else _unknown_source(resource, bindings, is_own=is_own)

    def bindings(self, workspace: str, start: int, end: int) -> APIBindings:
        """Return the APIBindings of a workspace at a time (microseconds)."""
        cluster, states = self.in_workspace(workspace), []
        for key in cluster.keys(API_BINDING):
            history = cluster.history(API_BINDING, key[2], key[3])
            assert history is not None
            # Informers may still have shown the state before.
            states.append([_state(history, place) for place in history.window(start - CACHE_DELAY, end)])
        return APIBindings(states, cluster.is_covered(API_BINDING) or self.is_born(workspace))

    def bindings_of(self, record: RequestRecord) -> APIBindings:
        """See `Cluster.bindings_of`."""
        return self.bindings(record.workspace, record.received, record.stage_time)

    def required_groups(self, record: RequestRecord) -> str | Missing | None:
        """See `Cluster.required_groups`: an annotation of the LogicalCluster."""
        logical_cluster = self.at(record).known(LOGICAL_CLUSTER, "", "cluster")
        if isinstance(logical_cluster, Missing) or logical_cluster is None or logical_cluster.holes:
            return Missing("", "the LogicalCluster of the workspace is not known", _GIVE_BINDINGS)
        groups = get(logical_cluster.value, REQUIRED_GROUPS)
        return groups if isinstance(groups, str) else None

    def defined(self, workspace: str) -> Collection[GroupResource]:
        """Return the resources that a workspace ever defined itself."""
        resources = self._definitions.get(workspace)
        if resources is None:
            own_resources = custom_resources(self.in_workspace(workspace).crds)
            resources = self._definitions[workspace] = {each.resource.group_resource for each in own_resources}
        return resources


def _unknown_source(resource: GroupResource, bindings: APIBindings, *, is_own: bool) -> Missing:
    """Return why it is unknown whose policies decide about a resource, and what the snapshot lacks."""
    if is_own:
        reason = f"the workspace defines {resource}, and it is not known whether an APIBinding replaces the definition"
        return Missing("", reason, _GIVE_APIBINDINGS)
    if bindings.are_known:
        reason = f"no APIBinding of the workspace binds {resource}, and its definition is not known"
        return Missing("", reason, _GIVE_DEFINITION)
    return Missing(
        "", f"the APIBindings of the workspace are not known, which decide where {resource} comes from", _GIVE_BINDINGS
    )


def _state(history: History, place: int) -> JSON | Missing:
    """Return the state of an object after an effect, or before the first one (-1)."""
    if place < 0:
        first = history.effects[0]
        is_creation = first.exchange is not None and first.exchange.record.code == CREATED
        return None if is_creation else Missing("", "the log does not show the object before its first write")
    after = history.after(place)
    if isinstance(after, Missing):
        return after
    return Missing("", after.holes[0].reason) if after.holes else after.value


def _is_unseen(cluster: Cluster, obj: JSON, began: int) -> bool:
    group, kind, namespace, name = key_of(obj)
    if (group, kind) not in _ALWAYS_WRITTEN:
        return False
    created = instant((obj.get("metadata") or {}).get("creationTimestamp"))
    gvk = GroupVersionKind(group, "", kind)
    return created > began and not cluster.is_written(gvk, namespace, name)


class _WritesOf(Mapping[ObjectRef, list[RequestRecord]]):
    """The writes to a subset of objects."""

    def __init__(self, writes: Writes, keys: set[ObjectRef]) -> None:
        self._writes = writes
        self._keys = keys

    def __getitem__(self, key: ObjectRef) -> list[RequestRecord]:
        if key not in self._keys:
            raise KeyError(key)
        return list(self._writes[key])

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
