"""Workspaces of a shard's requests and of their policies, for questions about the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct, field

from replay.audit.store import Store
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupResource
from replay.pipeline.kcp.folder import WorkspaceNames
from replay.pipeline.kcp.preparation import SHARD_LOOKUPS, workspaces_of
from replay.pipeline.manifests import Manifests
from replay.reconstruct.shard.cluster import ShardCluster

WorkspacePair = tuple[str, str]
"""The paths of the workspace of a request, and of that whose policies decide about it, empty where that is not known."""
NOWHERE: WorkspacePair = ("", "")


class Places(Struct):
    """Workspaces of a log's requests, by auditID; empty outside kcp."""

    by_audit_id: dict[str, WorkspacePair] = field(default_factory=dict)
    resources: Mapping[tuple[str, str, str], frozenset[WorkspacePair]] = field(default_factory=dict)
    """By logical cluster, group and resource the places of all requests about it."""

    def of(self, audit_id: str) -> WorkspacePair:
        """Return where a request was decided."""
        return self.by_audit_id.get(audit_id, NOWHERE)


def places_of(store: Store, manifests: Manifests, audit_ids: Collection[str] | None = None) -> Places:
    """The places of some requests, as log and snapshot tell; of all without any named."""
    rows = [(str(row[0]), str(row[1])) for row in store.answer("workspaces")]
    if not rows or (audit_ids is not None and not audit_ids):
        return Places()
    names = workspaces_of(manifests, rows).names
    cluster = ShardCluster(manifests.snapshot, store.lookups(SHARD_LOOKUPS))
    ids = None if audit_ids is None else frozenset(audit_ids)
    places_by_id: dict[str, WorkspacePair] = {}
    resources: dict[tuple[str, str, str], set[WorkspacePair]] = {}
    for audit_id, workspace, group, resource, start, end in store.query("request_workspaces").iter_rows():
        if ids is None or audit_id in ids:
            places_by_id[audit_id] = _place(cluster, names, workspace, (GroupResource(group, resource), start, end))
            resources.setdefault((workspace, group, resource), set()).add(places_by_id[audit_id])
    return Places(places_by_id, {key: frozenset(places) for key, places in resources.items()})


def _place(
    cluster: ShardCluster, names: WorkspaceNames, workspace: str, change: tuple[GroupResource, int, int]
) -> WorkspacePair:
    own = cluster.policy_workspace(workspace, *change)
    return names.path(workspace), "" if isinstance(own, Missing) else names.path(own)
