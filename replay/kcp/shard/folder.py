"""Sets and snapshots by workspace: a directory with one folder per workspace, named by its path with `.` for `:`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct, field

from replay.cellib.version import KubernetesVersion, Versions
from replay.errors import ManifestError, ReplayError
from replay.json import JSON
from replay.kcp.annotation import PATH, annotated, annotation, workspace_of
from replay.kcp.shard.layout import workspace_folders
from replay.kube.admissionregistration import ManifestSet, Origin
from replay.manifests.api_object import load_api
from replay.manifests.manifest_set import manifest_set_from_objects
from replay.manifests.set_loader import error_from_finding
from replay.reconstruct.snapshot import read_snapshot


class Folder(Struct, frozen=True):
    """One workspace's part of a set or snapshot: policies, and other objects."""

    path: Path
    policies: tuple[JSON, ...] = ()
    others: tuple[JSON, ...] = ()
    origins: Mapping[tuple[str, str], Origin] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        """The logical cluster that the objects name, empty if none does."""
        return next((cluster for obj in self.others if (cluster := workspace_of(obj))), "")


def load_folders(path: Path, version: KubernetesVersion, *, checked: bool = True) -> dict[str, Folder]:
    """Load the folders of a directory.

    If `checked`, raises ManifestError for objects that the REST API would refuse.
    """
    return {name: load_folder(at, version, checked=checked) for name, at in (workspace_folders(path) or {}).items()}


def load_folder(path: Path, version: KubernetesVersion, *, checked: bool = True) -> Folder:
    """Load one folder, or a plain set as one workspace."""
    loaded = load_api(path, version, mixed=True)
    for finding in loaded.findings if checked else ():
        raise error_from_finding(finding)
    objects = read_snapshot(path) if any(path.iterdir()) else []
    return Folder(
        path,
        tuple(item.value for item in loaded.objects),
        tuple(objects),
        {(item.kind, item.name): item.origin for item in loaded.objects},
    )


class WorkspaceNames(Struct, frozen=True):
    """Paths of logical clusters, and logical clusters of paths."""

    paths: Mapping[str, str] = field(default_factory=dict)

    def path(self, cluster: str) -> str:
        """Return the path of a workspace, or its logical cluster if the path is unknown."""
        return self.paths.get(cluster) or cluster

    def cluster(self, path: str) -> str:
        """Return the logical cluster of a path, or the path itself if the cluster is unknown."""
        return next((cluster for cluster, path_of_cluster in self.paths.items() if path_of_cluster == path), path)

    def matches(self, cluster: str, pattern: str) -> bool:
        """Return whether a path, logical cluster or pattern matches a workspace."""
        return fnmatchcase(self.path(cluster), pattern) or fnmatchcase(cluster, pattern)


def names_of(rows: Iterable[tuple[str, str]], folders: Iterable[Mapping[str, Folder]]) -> WorkspaceNames:
    """Return the known workspace names, from the log (`rows` of cluster and path), folders and Workspaces."""
    names = {cluster: path for cluster, path in rows if path}
    for each in folders:
        for path, folder in each.items():
            if folder.cluster:
                names.setdefault(folder.cluster, path)
            for obj in folder.others:
                if obj.get("kind") == "Workspace":
                    cluster = str((obj.get("spec") or {}).get("cluster") or "")
                    name = str((obj.get("metadata") or {}).get("name") or "")
                    names.setdefault(cluster, f"{path}:{name}")
                elif obj.get("kind") == "LogicalCluster" and annotation(obj, PATH):
                    names.setdefault(workspace_of(obj), annotation(obj, PATH))
    return WorkspaceNames({cluster: path for cluster, path in names.items() if cluster})


def snapshot_of(folders: Mapping[str, Folder], names: WorkspaceNames) -> list[JSON]:
    """Return a snapshot's objects, each with its workspace's annotation."""
    return [
        obj if workspace_of(obj) else annotated(obj, names.cluster(path))
        for path, folder in folders.items()
        for obj in folder.others
    ]


class ShardFolders(Struct, frozen=True):
    """Both sets and the snapshot, by workspace path. A set that was not given is None."""

    current: Mapping[str, Folder] | None
    candidate: Mapping[str, Folder] | None
    cluster: Mapping[str, Folder]

    def names(self, rows: Iterable[tuple[str, str]]) -> WorkspaceNames:
        """Return all known names, including those of the log's `rows`."""
        return names_of(rows, [self.cluster, self.current or {}, self.candidate or {}])


def load_shard(current: Path | None, candidate: Path | None, cluster: Path | None, versions: Versions) -> ShardFolders:
    """Load sets by workspace. Raise ManifestError for unusable input, including a plain set."""

    def folders(path: Path | None, version: KubernetesVersion) -> dict[str, Folder] | None:
        if path is None:
            return None
        if not path.exists():
            raise ManifestError("no such file or directory", path=str(path))
        if workspace_folders(path) is None:
            raise require_workspace(path)
        return load_folders(path, version)

    snapshot: dict[str, Folder] = {}
    if cluster is not None and workspace_folders(cluster) is not None:
        snapshot = load_folders(cluster, versions.current, checked=False)
    elif cluster is not None:
        snapshot = {"": Folder(cluster, others=tuple(read_snapshot(cluster)))}
    return ShardFolders(folders(current, versions.current), folders(candidate, versions.candidate), snapshot)


def union(folders: Iterable[Folder]) -> ManifestSet:
    """Return all policies of all workspaces."""
    folder_list = list(folders)
    origins = {key: origin for folder in folder_list for key, origin in folder.origins.items()}
    return manifest_set_from_objects((), [obj for folder in folder_list for obj in folder.policies], origins=origins)


def require_workspace(path: Path) -> ReplayError:
    """Return the error for a plain set with many workspaces."""
    text = "workspaces of kcp have policies of their own: give a directory with one folder a workspace, named by its path (`root.provider/`)"
    return ManifestError(text, path=str(path))
