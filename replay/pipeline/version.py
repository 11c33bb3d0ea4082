"""Which minor version of Kubernetes is replayed: the one that was asked for, else that of the server which a set is of."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replay.cellib.version import NEWEST, KubernetesVersion, Versions
from replay.errors import ReplayError
from replay.manifests.server.flags import image_version, server_file_of
from replay.pipeline.kcp.layout import SHARD_VERSION, is_by_workspace


def versions_of(text: str | None, one: str | None) -> tuple[KubernetesVersion, ...]:
    """The versions that a list names, `1.33,1.37`, else the `one` that was asked for. Raises ReplayError."""
    if text is None:
        return (version_of(one),)
    return tuple(dict.fromkeys(KubernetesVersion.parse(each.strip()) for each in text.split(",")))


def version_of(text: str | None, paths: Iterable[Path | None] = ()) -> KubernetesVersion:
    """The version that was asked for, else that of the server which some sets are of. Raises ReplayError."""
    places = tuple(paths)
    return _version_of(text, places, places)


def versions_of_sides(
    current: str | None, candidate: str | None, both: str | None, paths: Iterable[Path | None] = ()
) -> Versions:
    """The versions of the servers of both sets, by what names one of them or both; otherwise as `version_of`.

    The first two paths are the sets, the others only tell whether sets are by workspace. A set whose image says no version is of the
    server that the other one is of.
    """
    places = tuple(paths)
    own, planned = (*places[:2], None, None)[:2]
    return Versions(
        _version_of(current or both, places, (own, planned)), _version_of(candidate or both, places, (planned, own))
    )


def _version_of(text: str | None, places: Iterable[Path | None], sets: Iterable[Path | None]) -> KubernetesVersion:
    if text is not None:
        return KubernetesVersion.parse(text)
    if is_by_workspace(places):
        return SHARD_VERSION
    return next((version for path in sets if (version := _of_image(path)) is not None), NEWEST)


def _of_image(path: Path | None) -> KubernetesVersion | None:
    """The version of the server that a set is of; None where nothing says it, and for one that is not known."""
    file = None if path is None or not path.exists() else server_file_of(path)
    tag = "" if file is None else image_version(file)
    try:
        return KubernetesVersion.parse(tag) if tag else None
    except ReplayError:
        return None
