"""Answers that depend on a store and the code alone, kept beside it, so that the next run does not ask again.

They are a convenience and never the truth: one that is missing, damaged or of another store or version is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path

from replay.audit import queries
from replay.audit.catalog import SCHEMA, Catalog, replace_file

REMEMBERED = "remembered"
MOST_REMEMBERED = 4
"""How many answers of one name are kept; the oldest goes first."""
_CHECK = 32


def remembered(directory: Path, catalog: Catalog, name: str, make: Callable[[], bytes], of: bytes = b"") -> bytes:
    """See `Store.remembered`."""
    key = hashlib.sha256(f"{SCHEMA} {code_digest()} {json.dumps(asdict(catalog))} ".encode() + of).hexdigest()[:32]
    path = directory / REMEMBERED / f"{name}.{key}"
    if (found := _read(path)) is not None:
        return found
    made = make()
    try:
        path.parent.mkdir(exist_ok=True)
        replace_file(path, _check(path, made) + made, durable=False)
        _forget_oldest(path.parent, name)
    except OSError:
        pass  # a store that cannot be written is asked every time
    return made


def _read(path: Path) -> bytes | None:
    """What a file says if it is whole: nobody waited for the disk when it was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    found = content[_CHECK:]
    return found if _check(path, found) == content[:_CHECK] else None


def _check(path: Path, content: bytes) -> bytes:
    """A digest of an answer and of what it answers, so that one in the place of another counts as damaged."""
    return hashlib.sha256(path.name.encode() + b"\0" + content).digest()


def _forget_oldest(directory: Path, name: str) -> None:
    """Remove answers of a name that others have superseded, and what a killed process left half written."""
    paths = sorted(directory.glob(f"{name}.*"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    for path in paths[:-MOST_REMEMBERED]:
        path.unlink(missing_ok=True)


@cache
def code_digest() -> str:
    """The code of this installation and its queries: answers of another version of them are not taken over.

    Files are told by size and time, as reading all of them takes longer than most answers.
    """
    package = Path(__file__).parents[1]
    found = [path for path in package.rglob("*") if path.suffix in (".py", ".json")]
    stats = sorted((str(path), path.stat()) for path in (*found, *queries.folder().glob("*.sql")))
    lines = (f"{os.path.relpath(path, package)} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
