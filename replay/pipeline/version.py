"""Which minor version of Kubernetes is replayed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.pipeline.kcp.layout import SHARD_VERSION, is_by_workspace


def version_of(text: str | None, paths: Iterable[Path | None] = ()) -> KubernetesVersion:
    """The version that was asked for, else that of the server which some sets and snapshots are of. Raises ReplayError."""
    if text is not None:
        return KubernetesVersion.parse(text)
    return SHARD_VERSION if is_by_workspace(paths) else NEWEST
