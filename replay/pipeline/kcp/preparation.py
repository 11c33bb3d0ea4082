"""Preparation of a shard's replay: workspaces, and all policies that any of them ever had.

Forensic commands use it to find the workspaces of requests and of policies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from replay.audit.store import Store
from replay.kube.admissionregistration import GROUP, RESOURCES
from replay.kube.attributes import Missing
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource
from replay.manifests.manifest_set import manifest_set_from_objects
from replay.pipeline.kcp.chain import ShardChain
from replay.pipeline.kcp.folder import Folder, WorkspaceNames, require_workspace
from replay.pipeline.kcp.planned import Policies, Workspaces, changes_of
from replay.pipeline.manifests import Manifests
from replay.pipeline.replay.distinct_set import only_named
from replay.pipeline.replay.webhook import Sets
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.shard.cluster import ShardCluster

SHARD_LOOKUPS = (
    "apibindings.apis.kcp.io",
    "apiexports.apis.kcp.io",
    "apiresourceschemas.apis.kcp.io",
    "logicalclusters.core.kcp.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    *(f"{name}.{GROUP}" for name in RESOURCES),
)
"""Kinds that determine whose policies decide, which policies exist, and which kinds exist."""


class Preparation(NamedTuple):
    """Sets, all known kinds, and the workspaces, None outside kcp."""

    sets: Sets
    discovery: Discovery
    workspaces: Workspaces | None = None


def prepare(store: Store, manifests: Manifests) -> Preparation:
    """Return a store's sets; for a shard, everything that its workspaces ever had.

    Raise ReplayError for one plain set with many workspaces.
    """
    rows = [(str(row[0]), str(row[1])) for row in store.answer("workspaces")]
    if not rows and manifests.folders is None:
        return Preparation(manifests.sets, Cluster(manifests.snapshot).discovery)
    if manifests.folders is None and (manifests.current or manifests.candidate):
        raise require_workspace(manifests.path)
    ((first, *_),) = store.answer("log_facts")
    workspaces = replace(
        _workspaces_of(manifests, rows),
        began=int(first or 0),
        is_rehearsed=manifests.versions.differ or any(each.down for each in manifests.sets),
        only=manifests.only,
    )
    cluster = ShardCluster(manifests.snapshot, store.lookups(SHARD_LOOKUPS))
    chain = ShardChain(cluster, workspaces, manifests.versions, lambda sets: sets)
    current, candidate = (
        replace(
            manifest_set_from_objects((), chain.everything(planned=planned), origins=set_files.origins),
            down=set_files.down,
        )
        for planned, set_files in zip((False, True), manifests.sets, strict=True)
    )
    sets = (current, candidate)
    if manifests.only:
        sets = (only_named(current, manifests.only), only_named(candidate, manifests.only))
    return Preparation(sets, cluster.discovery, workspaces)


def _workspaces_of(manifests: Manifests, rows: Iterable[tuple[str, str]]) -> Workspaces:
    """Return the workspaces of sets and log. `rows` are logical cluster and path."""
    logged = list(rows)
    heard = frozenset(cluster for cluster, _ in logged)
    if manifests.folders is None:
        return Workspaces(WorkspaceNames({cluster: path for cluster, path in logged if path}), heard=heard)
    names = manifests.folders.names(logged)
    return Workspaces(
        names,
        _policies(manifests.folders.current, names),
        _policies(manifests.folders.candidate, names),
        heard,
        changes=changes_of(manifests.folders, names),
    )


def _policies(folders: Mapping[str, Folder] | None, names: WorkspaceNames) -> Policies:
    return {names.cluster(path): folder.policies for path, folder in (folders or {}).items()}


WorkspacePair = tuple[str, str]
"""Paths of the workspace of a request and of the workspace whose policies decide, empty if unknown."""
NOWHERE: WorkspacePair = ("", "")


class WorkspacePlaces(Struct):
    """Workspaces of a log's requests, by auditID, empty outside kcp."""

    by_audit_id: dict[str, WorkspacePair] = field(default_factory=dict)
    resources: Mapping[tuple[str, str, str], frozenset[WorkspacePair]] = field(default_factory=dict)
    """The workspace pairs of all requests, by logical cluster, group and resource."""

    def pair_for(self, audit_id: str) -> WorkspacePair:
        """Return the workspace in which a request was decided."""
        return self.by_audit_id.get(audit_id, NOWHERE)


def places_of(store: Store, manifests: Manifests, audit_ids: Collection[str] | None = None) -> WorkspacePlaces:
    """Return the workspaces of some requests, from log and snapshot; of all requests by default."""
    rows = [(str(row[0]), str(row[1])) for row in store.answer("workspaces")]
    if not rows or (audit_ids is not None and not audit_ids):
        return WorkspacePlaces()
    names = _workspaces_of(manifests, rows).names
    cluster = ShardCluster(manifests.snapshot, store.lookups(SHARD_LOOKUPS))
    ids = None if audit_ids is None else frozenset(audit_ids)
    places_by_id: dict[str, WorkspacePair] = {}
    resources: dict[tuple[str, str, str], set[WorkspacePair]] = {}
    for audit_id, workspace, group, resource, start, end in store.query("request_workspaces").iter_rows():
        if ids is None or audit_id in ids:
            places_by_id[audit_id] = _place(cluster, names, workspace, (GroupResource(group, resource), start, end))
            resources.setdefault((workspace, group, resource), set()).add(places_by_id[audit_id])
    return WorkspacePlaces(places_by_id, {key: frozenset(places) for key, places in resources.items()})


def _place(
    cluster: ShardCluster, names: WorkspaceNames, workspace: str, change: tuple[GroupResource, int, int]
) -> WorkspacePair:
    own = cluster.policy_workspace(workspace, *change)
    return names.path(workspace), "" if isinstance(own, Missing) else names.path(own)
