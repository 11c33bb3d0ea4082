"""`replay diff --no-new-access`: what two sets grant, each laid over the RBAC of a snapshot as `replay run` does it."""

from __future__ import annotations

from pathlib import Path

from replay.authorization.access import AccessChange, new_access
from replay.authorization.manifest import deleted_keys, laid_over, load_authorization
from replay.cellib.version import KubernetesVersion
from replay.errors import ReplayError
from replay.kube.rbac.kind import CLUSTER_ROLE, RBAC_GROUP, RBAC_KINDS
from replay.reconstruct.snapshot import read_snapshot

_KINDS = {kind.kind for kind in RBAC_KINDS}


def compare_access(current: Path, candidate: Path, cluster: Path | None, version: KubernetesVersion) -> AccessChange:
    """Return what the candidate newly grants. Raises ReplayError for unreadable sets, or without RBAC objects."""
    for path in (current, candidate):
        if not path.exists():
            raise ReplayError("no such file or directory", path=str(path))
    before, after = (load_authorization(path, version) for path in (current, candidate))
    if after.rbac is None:
        raise ReplayError(
            "the candidate says nothing about RBAC: give a set with rbac/, or RBAC objects", path=str(candidate)
        )
    snapshot = read_snapshot(cluster) if cluster is not None else []
    base = [
        obj
        for obj in snapshot
        if obj.get("kind") in _KINDS and str(obj.get("apiVersion")).partition("/")[0] == RBAC_GROUP
    ]
    return new_access(
        laid_over(base, before.rbac or ()),
        laid_over(base, after.rbac, deleted_keys(before, after)),
        is_whole=any(obj["kind"] == CLUSTER_ROLE.kind for obj in base),
    )
