"""Scope of a weekly report: the whole log, some namespaces, or some kcp workspaces."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from msgspec import Struct, field
from msgspec.structs import replace

from replay.audit.engine import literal
from replay.audit.store import Store
from replay.errors import ReplayError
from replay.kcp.shard.cluster import ShardCluster
from replay.kube.discovery import Discovery
from replay.matching.coarse import Predicate
from replay.pipeline.manifests import Manifests
from replay.pipeline.options import Focus
from replay.pipeline.project.focus import chosen, conjunction
from replay.pipeline.shard import SHARD_LOOKUPS, WorkspacePair, WorkspacePlaces, places_of
from replay.reconstruct.cluster import Cluster


class OwnSets(Struct, frozen=True):
    """The sets of one workspace, and a predicate of the requests that its policies decide.

    `workspace` is empty for a plain cluster.
    """

    manifests: Manifests
    workspace: str = ""
    within: Predicate | None = None


class ReportScope(Struct, frozen=True):
    """Requests of a log that a report covers.

    `places` are their workspaces by auditID. `workspaces` are the requested paths that the log knows, None for all.
    """

    manifests: Manifests
    discovery: Discovery
    is_shard: bool = False
    places: WorkspacePlaces = field(default_factory=WorkspacePlaces)
    workspaces: frozenset[str] | None = None
    within: Predicate | None = None

    def place(self, audit_id: str) -> WorkspacePair | None:
        """Return the workspaces of a request, or None for a request outside the report."""
        place = self.places.pair_for(audit_id)
        return place if self.workspaces is None or place[0] in self.workspaces else None

    def own_sets(self) -> Iterator[OwnSets]:
        """Yield the sets of the cluster, or those of each workspace."""
        for path, own in self.manifests.by_workspace():
            yield OwnSets(own, path, self._decided_in(path) if path else self.within)

    def _decided_in(self, workspace: str) -> Predicate:
        """Return a predicate of the requests that policies of a workspace may decide."""
        texts = sorted(self._resources(workspace))
        if not texts:
            return Predicate("false", ())
        listed = ", ".join(literal(each) for each in texts)
        return Predicate(f"(concat_ws(chr(31), workspace, api_group, resource) in ({listed}))", ())

    def _resources(self, workspace: str) -> Iterator[str]:
        for (cluster, group, resource), places in self.places.resources.items():
            if any(own == workspace and self._is_asked(target) for target, own in places):
                yield f"{cluster}\x1f{group}\x1f{resource}"

    def _is_asked(self, workspace: str) -> bool:
        return self.workspaces is None or workspace in self.workspaces


def scope_of(store: Store, manifests: Manifests, focus: Focus) -> ReportScope:
    """Return the scope of a report on some namespaces and workspaces, or on all. The store's queries are limited to it.

    Raise ReplayError for an unknown namespace, a log without workspaces, or a pattern that matches none.
    """
    within = chosen(store, Focus(namespaces=focus.namespaces))
    if focus.namespaces:
        store.prepare(f"set variable namespaces = {literal(chr(10).join(focus.namespaces))}")
    patterns = focus.workspaces
    rows = [(str(row[0]), str(row[1] or row[0])) for row in store.answer("workspaces")]
    if not rows:
        if patterns:
            raise ReplayError("the log has no workspaces: it is not of kcp", path="--workspace")
        return ReportScope(manifests, Cluster(manifests.snapshot).discovery, within=within)
    discovery = ShardCluster(manifests.snapshot, store.lookups(SHARD_LOOKUPS)).discovery
    scope = ReportScope(manifests, discovery, is_shard=True, places=places_of(store, manifests), within=within)
    if not patterns:
        return scope
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for _, path in rows):
            paths = ", ".join(sorted(path for _, path in rows))
            raise ReplayError(f"the log has no workspace {pattern}: it has {paths}", path="--workspace")
    rows = [row for row in rows if any(fnmatchcase(row[1], pattern) for pattern in patterns)]
    logical_clusters = "\n".join(cluster for cluster, _ in rows)
    store.prepare(f"set variable workspaces = {literal(logical_clusters)}")
    listed = ", ".join(literal(cluster) for cluster, _ in rows)
    asked_paths = frozenset(path for _, path in rows)
    return replace(
        scope, workspaces=asked_paths, within=conjunction(within, Predicate(f"(workspace in ({listed}))", ()))
    )
