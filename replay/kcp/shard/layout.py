"""Directory layout of a set or snapshot by workspace. Commands check it before they import the deciding code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from replay.cellib.version import KubernetesVersion
from replay.manifests.engine_object import ENGINE_DIRECTORIES
from replay.manifests.plugin import API_DIRECTORY, CHAIN_ORDER

SHARD_VERSION = KubernetesVersion(1, 36)
"""Default minor whose admission kcp has."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)*")
_NOT_WORKSPACES = frozenset(
    {
        *(plugin.directory for plugin in CHAIN_ORDER),
        API_DIRECTORY,
        *ENGINE_DIRECTORIES,
        "rbac",
        "objects",
        "current",
        "candidate",
    }
)


def workspace_folders(path: Path | None) -> dict[str, Path] | None:
    """Return the folders of a directory by workspace path, or None if the directory has another layout."""
    if path is None or not path.is_dir():
        return None
    entries = [entry for entry in sorted(path.iterdir()) if not entry.name.startswith(".")]
    folders = [entry for entry in entries if entry.is_dir()]
    if not folders or len(folders) != len(entries):
        return None
    if any(entry.name in _NOT_WORKSPACES or not _NAME.fullmatch(entry.name) for entry in folders):
        return None
    return {entry.name.replace(".", ":"): entry for entry in folders}


def is_by_workspace(paths: Iterable[Path | None]) -> bool:
    """Return whether any of the sets and snapshots is organised by workspace."""
    return any(workspace_folders(path) is not None for path in paths)
