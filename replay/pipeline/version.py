"""The Kubernetes minor version to replay: the given one, else the version of the server that a set belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replay.cellib.version import NEWEST, KubernetesVersion, Versions
from replay.errors import ReplayError
from replay.kcp.shard.layout import SHARD_VERSION, is_by_workspace
from replay.manifests.server.flags import image_version, server_file_of


def versions_of(text: str | None, one: str | None) -> tuple[KubernetesVersion, ...]:
    """Return the versions of a list such as `1.33,1.37`, else `one` alone. Raise ReplayError."""
    if text is None:
        return (version_of(one),)
    return tuple(dict.fromkeys(KubernetesVersion.parse(each.strip()) for each in text.split(",")))


def version_of(text: str | None, paths: Iterable[Path | None] = ()) -> KubernetesVersion:
    """Return the given version, else the version of the server that some sets belong to. Raise ReplayError."""
    places = tuple(paths)
    return _version_of(text, places, places)


def versions_of_sides(
    current: str | None, candidate: str | None, both: str | None, paths: Iterable[Path | None] = ()
) -> Versions:
    """Return the server versions of both sets.

    `current` and `candidate` name one of them, `both` names both. The first two paths are the sets. The others only
    show whether sets are by workspace. If a set's image has no version, the version of the other set is taken.
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
    return next((version for path in sets if (version := _image_version(path)) is not None), NEWEST)


def _image_version(path: Path | None) -> KubernetesVersion | None:
    """Return the version of the server that a set belongs to, or None if it is not stated or not known."""
    file = None if path is None or not path.exists() else server_file_of(path)
    tag = "" if file is None else image_version(file)
    try:
        return KubernetesVersion.parse(tag) if tag else None
    except ReplayError:
        return None
