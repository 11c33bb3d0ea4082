"""Differences between two sets without a log: manifests, server minors, authorization and workspaces."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from replay.authorization.access import AccessChange, new_access
from replay.authorization.chain import DEFAULT_CONFIGURATION
from replay.authorization.diff import diff_authorization
from replay.authorization.manifest import comparable_manifests, deleted_keys, laid_over, load_authorization
from replay.cellib.version import KubernetesVersion, Versions
from replay.errors import ReplayError
from replay.kcp.shard.folder import ShardFolders, load_folders
from replay.kcp.shard.layout import is_by_workspace
from replay.kcp.shard.planned import diff_workspaces
from replay.kube.admissionregistration import Sets
from replay.kube.rbac import CLUSTER_ROLE, RBAC_GROUP, RBAC_KINDS
from replay.manifests.diff import diff_minors, diff_sets
from replay.manifests.object_diff import ObjectDiff
from replay.manifests.set_loader import set_objects
from replay.pipeline.manifests import deciding_kinds, without_idle
from replay.reconstruct.snapshot import read_snapshot


def diff_folders(
    current: Path, candidate: Path, versions: Versions, workspaces: Collection[str] = ()
) -> tuple[ObjectDiff, ...]:
    """Return the differences between two directories of workspaces. `workspaces` are paths or patterns, empty for all.

    Raise ManifestError for unusable manifests, ReplayError for a pattern that matches no workspace.
    """
    now = load_folders(current, versions.current)
    # Unchanged objects are already stored, and the new server does not validate them again.
    planned = now if current == candidate else load_folders(candidate, versions.candidate)
    for pattern in workspaces:
        if not any(fnmatchcase(path, pattern) for path in (*now, *planned)):
            workspace_names = ", ".join(sorted({*now, *planned}))
            raise ReplayError(f"neither set has a workspace {pattern}: they have {workspace_names}", path="--workspace")
    if workspaces:
        planned = {
            path: each for path, each in planned.items() if any(fnmatchcase(path, pattern) for pattern in workspaces)
        }
    return diff_workspaces(ShardFolders(now, planned, {}), versions)


_KINDS = {kind.kind for kind in RBAC_KINDS}


def compare_access(current: Path, candidate: Path, cluster: Path | None, version: KubernetesVersion) -> AccessChange:
    """Return the access that the candidate newly grants.

    Raise ReplayError for unreadable sets, or without RBAC objects.
    """
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


class SetDifference(NamedTuple):
    """The objects that differ. `sets` is None if they are compared by workspace."""

    objects: tuple[ObjectDiff, ...]
    sets: Sets | None


def set_difference(
    current: Path, candidate: Path, versions: Versions, workspaces: Collection[str] = ()
) -> SetDifference:
    """Return the differences between two sets. `workspaces` limits them to some of kcp.

    Raise ReplayError or ManifestError for unusable input.
    """
    sets = None
    if is_by_workspace((current, candidate)):
        objects = diff_folders(current, candidate, versions, workspaces)
    elif workspaces:
        raise ReplayError("the sets have no workspaces: they are not of kcp", path="--workspace")
    else:
        stored = versions.current if current == candidate else None  # unchanged objects are already stored
        files = set_objects(current, versions.current), set_objects(candidate, versions.candidate, stored)
        own = [each.manifest_set(minor) for each, minor in zip(files, versions, strict=True)]
        others, kinds = [obj for each in files for obj in each.others], deciding_kinds(own)
        before, after = sets = without_idle(own[0], others, kinds), without_idle(own[1], others, kinds)
        objects = (*diff_sets(before, after), *diff_minors(before, after, versions))
    chains = load_authorization(current, versions.current), load_authorization(candidate, versions.candidate)
    authorization = diff_authorization(*comparable_manifests(chains, DEFAULT_CONFIGURATION), DEFAULT_CONFIGURATION)
    return SetDifference((*objects, *authorization), sets)
