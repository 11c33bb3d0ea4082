"""A candidate's changes of a workspace besides policies: bindings, exports, parameters, namespaces.

They change which workspaces are known, and whose policies decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from replay.cellib.version import Versions
from replay.json import JSON
from replay.kcp.annotation import CLUSTER, annotated
from replay.kcp.binding import API_BINDING, API_EXPORT, bound_from, exported, is_local, is_system, reference_of
from replay.kcp.shard.cluster import ShardCluster
from replay.kcp.shard.folder import Folder, ShardFolders, WorkspaceNames, union
from replay.kube.admissionregistration import GROUP
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupResource
from replay.kube.lister import ObjectKey
from replay.kube.overlay import Overlay
from replay.manifests.diff import diff_minors, diff_sets
from replay.manifests.object_diff import ObjectDiff
from replay.reconstruct.cluster import NAMESPACE, key_of

_OF_SERVER = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid", "ownerReferences"}
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_WITH_STATUS = ("apis.kcp.io", "APIBinding")
"""Kind whose status decides: its bound resources."""


class _WorkspaceChange(Struct, frozen=True, dict=True):
    """Changed and new objects of a candidate, and the baseline's objects that they replace or remove."""

    objects: tuple[JSON, ...] = ()
    earlier: tuple[JSON, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is a change."""
        return bool(self.objects or self.earlier)

    def of_kind(self, group: str, kind: str) -> dict[str, JSON]:
        """Return the changed cluster-scoped objects of a kind by name, null for removed ones."""
        objects: dict[str, JSON] = {}
        for obj in self.earlier:
            if key_of(obj)[:2] == (group, kind):
                objects[key_of(obj)[3]] = None
        for obj in self.objects:
            if key_of(obj)[:2] == (group, kind):
                objects[key_of(obj)[3]] = obj
        return objects

    @cached_property
    def namespaces(self) -> _WorkspaceChange:
        """Return the changes that requests to this workspace read."""
        return self._part(namespaces=True)

    @cached_property
    def lookups(self) -> _WorkspaceChange:
        """Return the changes that this workspace's policies read."""
        return self._part(namespaces=False)

    def _part(self, *, namespaces: bool) -> _WorkspaceChange:
        parts = ([obj for obj in each if _is_namespace(obj) is namespaces] for each in (self.objects, self.earlier))
        return _WorkspaceChange(*map(tuple, parts))

    def over(self, other: _WorkspaceChange) -> Overlay:
        """Return this change and another as an overlay."""
        return Overlay((*self.objects, *other.objects), (*self.earlier, *other.earlier))


NO_CHANGE = _WorkspaceChange()


def changes_of(folders: ShardFolders, names: WorkspaceNames) -> dict[str, _WorkspaceChange]:
    """Return the candidate's changes, by logical cluster."""
    changes = {}
    for path, planned in (folders.candidate or {}).items():
        current, snapshot = (folders.current or {}).get(path), folders.cluster.get(path)
        change = change_of(current, planned, snapshot, names.cluster(path))
        if change:
            changes[names.cluster(path)] = change
    return changes


def change_of(current: Folder | None, planned: Folder, snapshot: Folder | None, cluster: str) -> _WorkspaceChange:
    """Return the candidate's changes of one workspace.

    The reference is the baseline, or the snapshot for kinds that the baseline lacks. A kind that the candidate lacks
    stays. Of a kind in both sets, objects that the candidate lacks are removed.
    """
    said, there, planned_objects = (_objects(each) for each in (current, snapshot, planned))
    said_kinds, kinds = {key[:2] for key in said}, {key[:2] for key in planned_objects}
    base = said | {key: obj for key, obj in there.items() if key[:2] not in said_kinds}
    changed = {key: obj for key, obj in planned_objects.items() if _intent(obj) != _intent(base.get(key))}
    gone = [key for key in said if key[:2] in kinds and key not in planned_objects]
    earlier = [base[key] for key in (*changed, *gone) if key in base]
    return _WorkspaceChange(
        tuple(annotated(_without_server_fields(obj), cluster) for obj in changed.values()),
        tuple(annotated(_without_server_fields(obj), cluster) for obj in earlier),
    )


def _objects(folder: Folder | None) -> dict[ObjectKey, JSON]:
    return _objects_by_key(folder.others if folder is not None else ())


def _objects_by_key(objects: Iterable[JSON]) -> dict[ObjectKey, JSON]:
    """Return objects by key, without registrations of policies and webhooks."""
    return {key_of(obj): obj for obj in objects if key_of(obj)[0] != GROUP}


def _is_namespace(obj: JSON) -> bool:
    return key_of(obj)[:2] == (NAMESPACE.group, NAMESPACE.kind)


def _intent(obj: JSON) -> JSON:
    """Return an object's intent, without status and system metadata."""
    if obj is None:
        return None
    bare = _without_server_fields(obj)
    metadata = bare["metadata"]
    ignored = {CLUSTER, _LAST_APPLIED}
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in ignored}
    labels = {key: text for key, text in (metadata.get("labels") or {}).items() if key != "kubernetes.io/metadata.name"}
    return {**bare, "metadata": {**metadata, "annotations": annotations, "labels": labels}}


def _without_server_fields(obj: JSON) -> JSON:
    """Return an object without the fields that only the server writes."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _OF_SERVER}
    fields = {key: value for key, value in obj.items() if key != "status" or key_of(obj)[:2] == _WITH_STATUS}
    return {**fields, "metadata": metadata}


Policies = Mapping[str, tuple[JSON, ...]]
"""Policies, bindings and webhook configurations by logical cluster, as the server holds them."""


class Workspaces(Struct, frozen=True):
    """Names and sets by workspace. A workspace without a set is unknown.

    `heard` are logical clusters with events in the log. Writes to others are unknown. The log begins at `began`, in
    microseconds.
    """

    names: WorkspaceNames = field(default_factory=WorkspaceNames)
    current: Policies = field(default_factory=dict)
    candidate: Policies = field(default_factory=dict)
    heard: frozenset[str] = frozenset()
    log_start: int = 0
    changes: Mapping[str, _WorkspaceChange] = field(default_factory=dict)
    """Other changes of the candidate, by logical cluster."""
    is_rehearsed: bool = False
    """A flag that the candidate's server has another version, or that webhooks of one set are down."""
    only: frozenset[str] = frozenset()
    """Names of the only validating policies that run, empty for all."""


_GIVE_EXPORTS = "give a snapshot with the APIExports of its workspace"


class Rebinding:
    """The bindings under the candidate: those of the log's time, with the candidate's changes.

    A changed binding binds what its export offers, as kcp's controllers ensure.
    """

    def __init__(self, cluster: ShardCluster, workspaces: Workspaces) -> None:
        """`workspaces` hold the changes of the candidate."""
        self._cluster, self._workspaces = cluster, workspaces
        self._exports = {
            (workspace, name): obj
            for workspace, change in workspaces.changes.items()
            for name, obj in change.of_kind(API_EXPORT.group, API_EXPORT.kind).items()
        }
        self._bindings = {
            workspace: bindings
            for workspace, change in workspaces.changes.items()
            if (bindings := change.of_kind(API_BINDING.group, API_BINDING.kind))
        }

    def policy_workspace(
        self, own: str | Missing, workspace: str, resource: GroupResource, start: int, end: int
    ) -> str | Missing:
        """Return the workspace whose policies would decide about a workspace's resource.

        `own` is the one whose policies did.
        """
        if not (self._exports or workspace in self._bindings) or is_local(resource) or is_system(workspace):
            return own
        bindings = self._cluster.bindings(workspace, start, end)
        changed = self._bindings.get(workspace, {})
        unchanged = [state for states in bindings.states for state in states if _name(states) not in changed]
        sources_of_bindings = [self._source(workspace, state, resource) for state in (*unchanged, *changed.values())]
        sources = {source for source in sources_of_bindings if isinstance(source, str)} - {""}
        if len(sources) == 1:
            return sources.pop()
        if sources:
            return Missing("", f"the candidate binds {resource} from several workspaces")
        unknown = next((source for source in sources_of_bindings if isinstance(source, Missing)), None)
        if unknown is not None:
            return unknown
        # Another binding may bind the resource, or the workspace may define it itself.
        if not bindings.are_all or resource in self._cluster.defined(workspace):
            return own
        return Missing("", f"no APIBinding of the candidate binds {resource}, and the workspace does not define it")

    def _source(self, workspace: str, binding: JSON | Missing, resource: GroupResource) -> str | Missing:
        """Return the logical cluster from which a binding would bind a resource, empty if it would not."""
        if binding is None or isinstance(binding, Missing):
            return binding or ""
        path, name = reference_of(binding)
        home = self._workspaces.names.cluster(path) if path else workspace
        # The status of an unchanged binding shows what it binds.
        if (home, name) not in self._exports and not self._is_rebound(workspace, binding):
            return bound_from(binding, resource)
        export = self._exports[home, name] if (home, name) in self._exports else self._export(home, name)
        if isinstance(export, Missing):
            return export
        return home if resource in exported(export) else ""

    def _is_rebound(self, workspace: str, binding: JSON) -> bool:
        """Return whether a candidate's binding refers to another export than before, or has no status yet."""
        name = _name([binding])
        planned = self._bindings.get(workspace, {}).get(name)
        if planned is None or binding is not planned:
            return False
        if not planned.get("status"):
            return True
        change = self._workspaces.changes.get(workspace, NO_CHANGE)
        earlier = next((obj for obj in change.earlier if _is_binding(obj, name)), None)
        return earlier is None or reference_of(earlier) != reference_of(planned)

    def _export(self, workspace: str, name: str) -> JSON | Missing:
        """Return the newest state of an export."""
        history = self._cluster.in_workspace(workspace).history(API_EXPORT, "", name)
        states = [effect.state for effect in history.effects if effect.state is not None] if history else []
        where = self._workspaces.names.path(workspace)
        return states[-1] if states else Missing("", f"the APIExport `{where}:{name}` is not known", _GIVE_EXPORTS)


def _name(states: Iterable[JSON | Missing]) -> str:
    """Return the name of a binding, empty if no state of it is known."""
    return next((str(state["metadata"]["name"]) for state in states if isinstance(state, dict)), "")


def _is_binding(obj: JSON, name: str) -> bool:
    return (obj["kind"], _name([obj])) == (API_BINDING.kind, name)


def diff_workspaces(folders: ShardFolders, versions: Versions) -> tuple[ObjectDiff, ...]:
    """Return the differences, each named with the path of its workspace.

    A workspace that the candidate lacks stays as it is.
    """
    differences: list[ObjectDiff] = []
    current = folders.current or {}
    for path, planned in sorted((current if folders.candidate is None else folders.candidate).items()):
        differences += _diff(path, current.get(path), planned, folders.cluster.get(path), versions)
    return tuple(differences)


def _diff(
    path: str, current: Folder | None, planned: Folder, snapshot: Folder | None, versions: Versions
) -> Iterator[ObjectDiff]:
    """Yield the differences of one workspace.

    They are in policies, in other objects, and in policies that a new server no longer compiles.
    """
    change = change_of(current, planned, snapshot, "")
    base = replace(union([] if current is None else [current]), objects=change.earlier)
    candidate = replace(union([planned]), objects=change.objects)
    for each in (*diff_sets(base, candidate), *diff_minors(base, candidate, versions)):
        new_name = f"{path}/{each.new_name}" if each.new_name else ""
        yield replace(each, name=f"{path}/{each.name}", new_name=new_name)
