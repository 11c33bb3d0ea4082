"""URLs that users name: objects of buckets, and answers of web servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from replay.distribution import install_command

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
