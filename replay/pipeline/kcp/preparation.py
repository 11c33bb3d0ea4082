"""Preparation of a shard's replay: workspaces, and all policies that any of them ever had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from replay.audit.store import Store
from replay.kube.admissionregistration import GROUP, RESOURCES
from replay.kube.discovery import Discovery
from replay.manifests.manifest_set import manifest_set_from_objects
from replay.pipeline.kcp.chain import ShardChain
from replay.pipeline.kcp.folder import Folder, WorkspaceNames, require_workspace
from replay.pipeline.kcp.planned import changes_of
from replay.pipeline.kcp.workspaces import Policies, Workspaces
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
"""Kinds that tell whose policies decide, which policies exist, and which kinds."""


class Preparation(NamedTuple):
    """Sets, all known kinds, and the workspaces, None outside kcp."""

    sets: Sets
    discovery: Discovery
    workspaces: Workspaces | None = None


def prepare(store: Store, manifests: Manifests) -> Preparation:
    """Return a store's sets; for a shard, everything that its workspaces ever had.

    Raises ReplayError for one plain set with many workspaces.
    """
    rows = [(str(row[0]), str(row[1])) for row in store.answer("workspaces")]
    if not rows and manifests.folders is None:
        return Preparation(manifests.sets, Cluster(manifests.snapshot).discovery)
    if manifests.folders is None and (manifests.current or manifests.candidate):
        raise require_workspace(manifests.path)
    ((first, *_),) = store.answer("log_facts")
    workspaces = replace(workspaces_of(manifests, rows), began=int(first or 0), only=manifests.only)
    cluster = ShardCluster(manifests.snapshot, store.lookups(SHARD_LOOKUPS))
    chain = ShardChain(cluster, workspaces, manifests.version, lambda sets: sets)
    current, candidate = (
        manifest_set_from_objects((), chain.everything(planned=planned), origins=set_files.origins)
        for planned, set_files in zip((False, True), manifests.sets, strict=True)
    )
    sets = (current, candidate)
    if manifests.only:
        sets = (only_named(current, manifests.only), only_named(candidate, manifests.only))
    return Preparation(sets, cluster.discovery, workspaces)


def workspaces_of(manifests: Manifests, rows: Iterable[tuple[str, str]]) -> Workspaces:
    """Return what sets and log say about workspaces; `rows` are logical cluster and path."""
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
