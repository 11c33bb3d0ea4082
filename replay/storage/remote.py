"""Files at URLs that the user names: objects of a bucket and answers of a web server. Each is read once, in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from replay.errors import StoreError
from replay.storage.location import NEEDS_EXTRA
from replay.storage.location import SCHEMES as BUCKETS
from replay.storage.location import is_url as is_bucket

WEB = ("https://", "http://")


class RemoteFile(NamedTuple):
    """File at `url`. `pieces` fetches it, and raises AuditLogError if it is incomplete."""

    url: str
    pieces: Callable[[], Iterable[bytes]]

    @property
    def name(self) -> str:
        """URL without secrets."""
        return shown(self.url)


def is_remote(text: str) -> bool:
    """Return whether a text names something on another machine."""
    return text.startswith((*BUCKETS, *WEB))


def shown(text: str) -> str:
    """Return a URL without possible secrets (user, query). Other texts stay unchanged."""
    if not is_remote(text):
        return text
    parts = urlsplit(text)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def remote_files(url: str) -> Iterator[RemoteFile]:
    """Return the files at a URL: an object, a folder or a pattern in a bucket, or the answer of a web server.

    Raises `AuditLogError` if a file is missing or forbidden, and `StoreError` without the extra for buckets.
    """
    if is_bucket(url):
        try:
            from replay.storage.object_file import objects  # noqa: PLC0415 - an extra, that logs on this machine do not need
        except ImportError as error:  # pragma: no cover - where the extra is not installed
            raise StoreError(NEEDS_EXTRA) from error
        return objects(url)
    from replay.storage.web_file import answer  # noqa: PLC0415 - most runs ask no server

    return iter([RemoteFile(url, lambda: answer(url))])
