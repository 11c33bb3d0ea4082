"""Locations of stores as users name them: the path of a directory, or the URL of a bucket and a prefix."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from replay.distribution import install_command
from replay.errors import StoreError
from replay.storage.directory import DirectoryStorage
from replay.storage.storage import Storage

SCHEMES = ("s3://", "gs://", "az://")
NEEDS_EXTRA = f"object storage needs an extra: {install_command('bucket')}"


def is_url(location: Path | str) -> bool:
    """Return whether a location is in object storage."""
    return str(location).startswith(SCHEMES)


def opened(location: Path | str, stack: ExitStack) -> Storage:
    """Return the storage at a location, open until `stack` closes. Raises StoreError for an invalid location."""
    if is_url(location):
        from replay.storage.bucket import open_bucket  # noqa: PLC0415 - an extra, that directories need not have

        return open_bucket(str(location), stack)
    # DuckDB and Polars would read these characters as a pattern.
    if set("*?[]{}") & set(str(location)):
        raise StoreError("the path of a store has none of `*?[]{}`: name another directory", path=str(location))
    if any("\ud800" <= letter <= "\udfff" for letter in str(location)):  # bytes that are no UTF-8 (PEP 383)
        raise StoreError("the path of a store is UTF-8: name another directory", path=str(location))
    return DirectoryStorage(Path(location).resolve())
