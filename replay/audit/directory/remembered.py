"""Cached answers that depend only on a store and the code. They are kept beside the store for the next run.

They are never the only source. A missing or damaged answer, or one of another store or version, is computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from msgspec import to_builtins

from replay.audit import queries
from replay.audit.catalog import SCHEMA, Catalog
from replay.storage.storage import Storage

REMEMBERED = "remembered"
MOST_REMEMBERED = 4
"""Number of answers of one name that are kept. The oldest are removed."""
_CHECK = 32


def remembered(
    storage: Storage, catalog: Catalog, name: str, make: Callable[[], bytes], question: bytes = b""
) -> bytes:
    """See `Store.remembered`."""
    about = f"{SCHEMA} {code_digest()} {json.dumps(to_builtins(catalog))} ".encode()
    key = hashlib.sha256(about + question).hexdigest()[:32]
    place = f"{REMEMBERED}/{name}.{key}"
    if (content := _read(storage, place)) is not None:
        return content
    content_made = make()
    try:
        storage.put(place, _check(place, content_made) + content_made)
        _forget_oldest(storage, name)
    except OSError:
        pass  # a store that cannot be written is asked every time
    return content_made


def _read(storage: Storage, place: str) -> bytes | None:
    """Return a file's answer if it is whole. Nothing is flushed when it is written, so a crash may damage it."""
    try:
        content = storage.read(place)
    except OSError:
        return None
    body = content[_CHECK:]
    return body if _check(place, body) == content[:_CHECK] else None


def _check(place: str, content: bytes) -> bytes:
    """Return a digest of an answer and its question. An answer in the wrong place then counts as damaged."""
    return hashlib.sha256(place.rpartition("/")[2].encode() + b"\0" + content).digest()


def _forget_oldest(storage: Storage, name: str) -> None:
    """Remove all but the newest answers of a name."""
    prefix = f"{REMEMBERED}/"
    own = (entry for entry in storage.entries(prefix) if entry.name.startswith(f"{prefix}{name}."))
    for entry in sorted(own, key=lambda entry: (entry.modified, entry.name))[:-MOST_REMEMBERED]:
        storage.remove(entry.name)


@cache
def code_digest() -> str:
    """Return a digest of this installation's code and queries. Answers of another version are not used.

    Size and time identify a file, because reading all files takes longer than most answers.
    """
    package = Path(__file__).parents[1]
    paths = [path for path in package.rglob("*") if path.suffix in (".py", ".json")]
    stats = sorted((str(path), path.stat()) for path in (*paths, *queries.folder().glob("*.sql")))
    lines = (f"{os.path.relpath(path, package)} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
