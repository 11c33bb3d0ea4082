"""Which minor version of Kubernetes is replayed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replay.cellib.version import NEWEST, KubernetesVersion, Versions
from replay.pipeline.kcp.layout import SHARD_VERSION, is_by_workspace


def versions_of(text: str | None, one: str | None) -> tuple[KubernetesVersion, ...]:
    """The versions that a list names, `1.33,1.37`, else the `one` that was asked for. Raises ReplayError."""
    if text is None:
        return (version_of(one),)
    return tuple(dict.fromkeys(KubernetesVersion.parse(each.strip()) for each in text.split(",")))


def version_of(text: str | None, paths: Iterable[Path | None] = ()) -> KubernetesVersion:
    """Return the requested version, else that of the sets' and snapshots' server. Raises ReplayError."""
    if text is not None:
        return KubernetesVersion.parse(text)
    return SHARD_VERSION if is_by_workspace(paths) else NEWEST


def versions_of_sides(
    current: str | None, candidate: str | None, both: str | None, paths: Iterable[Path | None] = ()
) -> Versions:
    """The versions of the servers of both sets, by what names one of them or both; otherwise as `version_of`."""
    sides = tuple(paths)
    return Versions(version_of(current or both, sides), version_of(candidate or both, sides))
