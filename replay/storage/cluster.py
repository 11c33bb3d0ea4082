"""Several clusters in one store: each is a separate store below `cluster=NAME`, so their data never mix."""

from __future__ import annotations

import re
from contextlib import ExitStack
from fnmatch import fnmatchcase

from replay.errors import StoreError
from replay.storage.location import opened

_FOLDER = "cluster="
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MAGIC = re.compile(r"[*?\[]")
_OPTION = "--cluster-name"


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern for several clusters."""
    return _MAGIC.search(name) is not None


def cluster_location(store: str, name: str) -> str:
    """Return the location of one cluster in a store. Raises StoreError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise StoreError(f"`{name}` names no cluster: letters, digits, `.`, `_` and `-`, 63 at most", path=_OPTION)
    return f"{store.rstrip('/')}/{_FOLDER}{name}"


def cluster_names(store: str) -> tuple[str, ...]:
    """Return the names of the clusters in a store, sorted."""
    with ExitStack() as stack:
        folders = opened(store, stack).folders("")
        return tuple(sorted(name.removeprefix(_FOLDER) for name in folders if name.startswith(_FOLDER)))


def clusters_meant(store: str, pattern: str) -> dict[str, str]:
    """Return the locations of the clusters that match a pattern, by name. Raises StoreError if there are none."""
    names = cluster_names(store)
    locations = {name: cluster_location(store, name) for name in names if fnmatchcase(name, pattern)}
    if not locations:
        reason = f"it has {', '.join(names)}" if names else "it was filled without names"
        raise StoreError(f"the store has no cluster `{pattern}`: {reason}", path=_OPTION)
    return locations


def one_cluster(store: str | None, name: str | None) -> str | None:
    """Return the location of a store, or of the only cluster that a name or pattern selects. Raises StoreError."""
    if name is None:
        return store
    if store is None:
        raise StoreError("clusters are told apart by a store: give --store", path=_OPTION)
    if not is_pattern(name):
        return cluster_location(store, name)
    locations = clusters_meant(store, name)
    if len(locations) > 1:
        raise StoreError(
            f"`{name}` means {', '.join(locations)}: name one; `replay sql`, `lookup` and `report` ask several",
            path=_OPTION,
        )
    (location,) = locations.values()
    return location
