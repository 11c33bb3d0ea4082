"""Files at URLs that somebody names: objects of a bucket, and what a web server answers. Each is read once, piece by piece."""

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
    """One file: `url` is what is asked for, `pieces` asks for it, and raises `AuditLogError` where not all of it comes."""

    url: str
    pieces: Callable[[], Iterable[bytes]]

    @property
    def name(self) -> str:
        """The URL as people may see it."""
        return shown(self.url)


def is_remote(text: str) -> bool:
    """Whether a text names something that is not on this machine."""
    return text.startswith((*BUCKETS, *WEB))


def shown(text: str) -> str:
    """A URL without what may be a secret (its user, its query); what is none as it is."""
    if not is_remote(text):
        return text
    parts = urlsplit(text)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def remote_files(url: str) -> Iterator[RemoteFile]:
    """What a URL names: of a bucket an object, all below a folder, or all that a pattern means; else what a server answers.

    Raises `AuditLogError` for what is not there or not given away, `StoreError` where the extra for buckets is not installed.
    """
    if is_bucket(url):
        try:
            from replay.storage.object_file import objects  # noqa: PLC0415 - an extra, that logs on this machine do not need
        except ImportError as error:  # pragma: no cover - where the extra is not installed
            raise StoreError(NEEDS_EXTRA) from error
        return objects(url)
    from replay.storage.web_file import answer  # noqa: PLC0415 - most runs ask no server

    return iter([RemoteFile(url, lambda: answer(url))])
