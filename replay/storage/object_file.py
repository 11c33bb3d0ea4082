"""Objects of a bucket for reading: one by name, all below a folder, or all that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import translate
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from replay.errors import AuditLogError, NoLogError
from replay.storage.bucket import reason
from replay.storage.url import RemoteFile, shown

_MAGIC = re.compile(r"[*?\[]")


def objects(url: str) -> Iterator[RemoteFile]:
    """Yield the objects that a URL selects, sorted by name. See `remote_files`."""
    scheme, bucket, path = urlsplit(url, allow_fragments=False)[:3]
    root, path = f"{scheme}://{bucket}", path.lstrip("/")
    if "?" in url:  # to a URL the rest is a query, to a pattern any letter
        path = url.removeprefix(root).lstrip("/")
    try:
        store = from_url(root, client_options={"allow_http": True})
        names = list(_names(store, path))
    except (BaseError, ValueError, OSError) as error:
        raise AuditLogError(reason(error), path=shown(url)) from error
    if not names:
        raise NoLogError("no such object, and none below it", path=shown(url))
    for name in sorted(names):
        own = f"{root}/{name}"
        yield RemoteFile(own, partial(_pieces, store, name, own))


def _names(store: Any, path: str) -> Iterator[str]:
    """Yield the names that a path selects.

    In folders, objects whose name begins with a dot are skipped, like hidden files.
    """
    magic = _MAGIC.search(path)
    if magic is None and path and not path.endswith("/") and _is_there(store, path):
        yield path
        return
    folder = path[: path.rfind("/", 0, magic.start()) + 1] if magic is not None else path
    regex = _pattern(path) if magic is not None else None
    for listed in obstore.list(store, prefix=folder or None):
        for meta in listed:
            name = str(meta["path"])
            hidden = name.rpartition("/")[2].startswith(".")
            if regex.fullmatch(name) if regex is not None else not hidden:
                yield name


def _is_there(store: Any, path: str) -> bool:
    try:
        obstore.head(store, path)
    except FileNotFoundError:
        return False
    return True


def _pattern(path: str) -> re.Pattern[str]:
    """Return a shell pattern as a regular expression: `*` within one folder, `**` across folders."""
    parts = path.split("/")
    texts = [
        "(?:[^/]+/)*" if part == "**" else _part_pattern(part) + ("/" if number < len(parts) else "")
        for number, part in enumerate(parts, 1)
    ]
    return re.compile("".join(texts))


def _part_pattern(part: str) -> str:
    """Return the regular expression for one part. A leading `*` or `?` does not match a dot."""
    text = translate(part).removeprefix("(?s:")[: -len(r")\Z")].replace(".*", "[^/]*")  # `)\z` since Python 3.14
    return text if part.startswith(".") else rf"(?!\.){text}"


def _pieces(store: Any, name: str, url: str) -> Iterator[bytes]:
    try:
        response = obstore.get(store, name)
        fetched = 0
        for piece in response.stream():
            fetched += len(piece)
            yield bytes(piece)
    except (BaseError, OSError) as error:
        raise AuditLogError(reason(error), path=shown(url)) from error
    if fetched != response.meta["size"]:
        raise AuditLogError(
            f"the object ended after {fetched} of {response.meta['size']} bytes: run again", path=shown(url)
        )
