"""Integrity of a store: each file of its segments exists and has the bytes that the catalogue states.

With a missing or changed file, a query would silently return other rows. So every reader checks all files when it opens
a store. That takes about as long as reading them: 15 MB for a log of 250 MB.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from replay.audit.catalog import SEGMENTS, Catalog, DataFile
from replay.audit.engine import literal
from replay.errors import StoreError, reason_of
from replay.on_demand import duckdb
from replay.storage.storage import Storage

_CURE = "remove the store's directory and ingest the logs again"


def data_files(
    connection: duckdb.DuckDBPyConnection, segment: Path, paths: Iterable[Path], *, is_kept: bool
) -> tuple[DataFile, ...]:
    """Return the catalogue entries of a segment's Parquet files. Raises `OSError`.

    Temporary files (`is_kept` is false) get no digest, because they end with the process that wrote them.
    """
    ordered = sorted(paths)
    rows = _row_counts(connection, ordered)
    return tuple(
        DataFile(str(path.relative_to(segment)), path.stat().st_size, _digest(path) if is_kept else "", count)
        for path, count in zip(ordered, rows, strict=True)
    )


def _row_counts(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> list[int]:
    """Return the numbers of rows in the footers of files, in the order of the paths."""
    if not paths:
        return []
    query = f"select file_name, num_rows from parquet_file_metadata([{', '.join(map(literal, paths))}])"  # noqa: S608
    counts = dict(connection.execute(query).fetchall())
    return [counts[str(path)] for path in paths]


def require_whole(storage: Storage, catalog: Catalog) -> None:
    """Raise `StoreError` for the first file of a store that is missing or changed."""
    stated = [(f"{SEGMENTS}/{segment.name}/{file.path}", file) for segment in catalog.segments for file in segment.data]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for name, damage in pool.map(partial(_damage, storage), stated):
            if damage:
                raise StoreError(f"{damage}: {_CURE}", path=f"{storage.location}/{name}")


def _damage(storage: Storage, stated: tuple[str, DataFile]) -> tuple[str, str]:
    """Return `(path, problem)` of a file. The problem is empty for a whole file."""
    name, file = stated
    try:
        path = storage.local(name)
        size = path.stat().st_size
        if size != file.size:
            return name, f"damaged, it has {size} bytes and was written with {file.size}"
        if _digest(path) != file.digest:
            return name, "damaged, its content is not what was written"
    except FileNotFoundError:
        return name, f"missing, with {file.rows} rows of the store"
    except OSError as error:
        return name, f"cannot be read ({reason_of(error)})"
    return name, ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
