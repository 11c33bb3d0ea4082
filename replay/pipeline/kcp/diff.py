"""Differences between two sets by workspace."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.errors import ReplayError
from replay.manifests.diff import diff_sets
from replay.manifests.object_diff import ObjectDiff
from replay.pipeline.kcp.folder import Folder, ShardFolders, load_folders, union
from replay.pipeline.kcp.planned import change_of


def diff_workspaces(folders: ShardFolders) -> tuple[ObjectDiff, ...]:
    """The differences, each object with the path of its workspace; a workspace that the candidate lacks stays as it is."""
    differences: list[ObjectDiff] = []
    for path, planned in sorted((folders.candidate or {}).items()):
        differences += _diff(path, (folders.current or {}).get(path), planned, folders.cluster.get(path))
    return tuple(differences)


def _diff(path: str, current: Folder | None, planned: Folder, snapshot: Folder | None) -> Iterator[ObjectDiff]:
    """Yield the differences of one workspace: policies, and other objects."""
    change = change_of(current, planned, snapshot, "")
    base = replace(union([] if current is None else [current]), objects=change.earlier)
    for each in diff_sets(base, replace(union([planned]), objects=change.objects)):
        new_name = f"{path}/{each.new_name}" if each.new_name else ""
        yield replace(each, name=f"{path}/{each.name}", new_name=new_name)


def diff_folders(
    current: Path, candidate: Path, version: KubernetesVersion, workspaces: Collection[str] = ()
) -> tuple[ObjectDiff, ...]:
    """The same for two directories, of some workspaces, by path or pattern, or of all.

    Raises ManifestError for what cannot be used, ReplayError for a pattern that means no workspace of either.
    """
    current_folders, candidate_folders = load_folders(current, version), load_folders(candidate, version)
    for pattern in workspaces:
        if not any(fnmatchcase(path, pattern) for path in (*current_folders, *candidate_folders)):
            workspace_names = ", ".join(sorted({*current_folders, *candidate_folders}))
            raise ReplayError(f"neither set has a workspace {pattern}: they have {workspace_names}", path="--workspace")
    if workspaces:
        candidate_folders = {
            path: each
            for path, each in candidate_folders.items()
            if any(fnmatchcase(path, pattern) for pattern in workspaces)
        }
    return diff_workspaces(ShardFolders(current_folders, candidate_folders, {}))
