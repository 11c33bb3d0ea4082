"""Which minor version of Kubernetes is replayed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replay.cellib.version import NEWEST, KubernetesVersion


def version_of(text: str | None, paths: Iterable[Path | None] = ()) -> KubernetesVersion:
    """The version that was asked for, else that of the server which some sets and snapshots are of. Raises ReplayError."""
    if text is not None:
        return KubernetesVersion.parse(text)
    if any(path is not None and path.is_dir() for path in paths):
        from replay.pipeline.kcp.folder import SHARD_VERSION, is_by_workspace  # noqa: PLC0415 - few are made so

        if is_by_workspace(paths):
            return SHARD_VERSION
    return NEWEST
