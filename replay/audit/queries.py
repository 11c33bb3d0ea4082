"""The SQL files of the project: `queries/` of a checkout, or `replay/queries` of an installed wheel."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from replay.errors import StoreError

_PACKAGE = Path(__file__).parents[1]
_PART = re.compile(r"\$(\w+)")
_NEEDS = re.compile(r"^-- Needs: +(.+)$", re.MULTILINE)


@cache
def folder() -> Path:
    """Return the directory of the SQL files. Raises `StoreError` for a broken installation."""
    for path in (_PACKAGE / "queries", _PACKAGE.parent / "queries"):
        if path.is_dir():
            return path
    raise StoreError("the SQL files are not installed: reinstall kube-replay")


def names() -> list[str]:
    """Return the names of the queries for users. `ingest_…` are steps of the ingest."""
    return sorted(path.stem for path in folder().glob("*.sql") if not path.stem.startswith("ingest_"))


@cache
def text(name: str) -> str:
    """Return the SQL of a query. Raises `StoreError` for an unknown name."""
    path = folder() / f"{name}.sql"
    if not path.is_file():
        raise StoreError(f"no query `{name}`: there are {', '.join(names())}")
    return path.read_text(encoding="utf-8")


def filled(name: str, **parts: str) -> str:
    """Return the SQL of a query without its header, with SQL in the place of `$name` for each part."""
    lines = text(name).splitlines(keepends=True)
    query = "".join(lines[next(place for place, line in enumerate(lines) if not line.startswith("--")) :])
    return _PART.sub(lambda match: parts.get(match[1], match[0]), query)


@cache
def needs() -> dict[str, str]:
    """Return the conditions over `request` without which a query has no row, by name of the query.

    Headers state them, for queries that need a kind of request that a log often lacks.
    """
    return {name: found[1] for name in names() if (found := _NEEDS.search(text(name)))}


def header(name: str) -> str:
    """Return the comment at the start of a query, without the comment marks."""
    lines = []
    for line in text(name).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").removeprefix(" "))
    return "\n".join(lines)
