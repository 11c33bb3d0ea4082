"""Locations as users name them: opens the store at a directory or bucket, and finds the files at a URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from replay.errors import StoreError
from replay.storage.directory import DirectoryStorage
from replay.storage.storage import Storage
from replay.storage.url import NEEDS_EXTRA, RemoteFile, is_bucket


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

    Each is read once, in pieces. Raises `AuditLogError` if a file is missing or forbidden, and `StoreError` without the extra for buckets.
    """
    if is_bucket(url):
        try:
            from replay.storage.object_file import objects  # noqa: PLC0415 - an extra, that logs on this machine do not need
        except ImportError as error:  # pragma: no cover - where the extra is not installed
            raise StoreError(NEEDS_EXTRA) from error
        return objects(url)
    from replay.storage.web_file import answer  # noqa: PLC0415 - most runs read no web server

    return iter([RemoteFile(url, lambda: answer(url))])
