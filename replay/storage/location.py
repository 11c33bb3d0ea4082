"""Places as users name them: the path of a directory, the URL of a bucket and a prefix, or the URL of a web server.

A store's place may hold several clusters. Each is a separate store below `cluster=NAME`, so their data never mix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from replay.distribution import install_command
from replay.errors import StoreError
from replay.storage.directory import DirectoryStorage
from replay.storage.storage import Storage

BUCKETS = ("s3://", "gs://", "az://")
WEB = ("https://", "http://")
NEEDS_EXTRA = f"object storage needs an extra: {install_command('bucket')}"


class RemoteFile(NamedTuple):
    """File at `url`. `pieces` fetches it, and raises AuditLogError if it is incomplete."""

    url: str
    pieces: Callable[[], Iterable[bytes]]

    @property
    def name(self) -> str:
        """URL without secrets."""
        return shown(self.url)


def is_bucket(location: Path | str) -> bool:
    """Return whether a location is in object storage."""
    return str(location).startswith(BUCKETS)


def is_remote(text: str) -> bool:
    """Return whether a text names something on another machine."""
    return text.startswith((*BUCKETS, *WEB))


def shown(text: str) -> str:
    """Return a URL without possible secrets (user, query). Other texts stay unchanged."""
    if not is_remote(text):
        return text
    parts = urlsplit(text)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def opened(location: Path | str, stack: ExitStack) -> Storage:
    """Return the storage at a location, open until `stack` closes. Raises StoreError for an invalid location."""
    if is_bucket(location):
        from replay.storage.bucket import open_bucket  # noqa: PLC0415 - an extra, that directories need not have

        return open_bucket(str(location), stack)
    # DuckDB and Polars would read these characters as a pattern.
    if set("*?[]{}") & set(str(location)):
        raise StoreError("the path of a store has none of `*?[]{}`: name another directory", path=str(location))
    if any("\ud800" <= letter <= "\udfff" for letter in str(location)):  # bytes that are no UTF-8 (PEP 383)
        raise StoreError("the path of a store is UTF-8: name another directory", path=str(location))
    return DirectoryStorage(Path(location).resolve())


def remote_files(url: str) -> Iterator[RemoteFile]:
    """Return the files at a URL: an object, a folder or a pattern in a bucket, or the answer of a web server.

    Each is read once, in pieces. Raises `AuditLogError` if a file is missing or forbidden, and `StoreError` without the
    extra for buckets.
    """
    if is_bucket(url):
        from replay.storage.bucket import objects  # noqa: PLC0415 - an extra, that logs on this machine do not need

        return objects(url)
    from replay.storage.web_file import answer  # noqa: PLC0415 - most runs read no web server

    return iter([RemoteFile(url, lambda: answer(url))])


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


def matching_clusters(store: str, pattern: str) -> dict[str, str]:
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
    locations = matching_clusters(store, name)
    if len(locations) > 1:
        raise StoreError(
            f"`{name}` means {', '.join(locations)}: name one; `replay sql`, `lookup` and `report` ask several",
            path=_OPTION,
        )
    (location,) = locations.values()
    return location
