"""The catalogue of a store: `store.json`, which is replaced in one step, and the names of locks between processes.

Each file of a segment exists and has the bytes that the catalogue states. With a missing or changed file, a query would
silently return other rows. So every reader checks all files when it opens a store. That takes about as long as reading
them: 15 MB for a log of 250 MB.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from replay.audit.engine import literal
from replay.distribution import NAME
from replay.errors import StoreError, reason_of
from replay.on_demand import duckdb
from replay.storage.directory import store_error
from replay.storage.storage import Storage

SCHEMA = 7
"""Version of the columns and of the layout. A store of another version is refused."""
CATALOG = "store.json"
SEGMENTS = "segments"
"""Folder of the segments. Each has a folder of its own in it."""
FLEET = "fleet"
"""Folder in which the processes of a fleet exchange values. Each run has a folder of its own in it."""
OPEN = "open.sql"
WRITERS = "lock"
READERS = "readers"
LIVE = "live"
JOURNAL = "journal"
BUSY = "another process writes to the store: wait for it to end"
IS_LIVE = "another process follows a log into the store: one at a time does"
IN_USE = "another process reads the store: wait for it to end"
_KIND = "replay store"


class FileEntry(Struct, frozen=True):
    """A file that was ingested. Its content identifies it."""

    name: str
    digest: str
    size: int
    lines: int


class DataFile(Struct, frozen=True):
    """A Parquet file of a segment: path, size in bytes, SHA-256 (empty in a temporary store), and number of rows."""

    path: str
    size: int
    digest: str
    rows: int


class SegmentEntry(Struct, frozen=True):
    """One ingest: its directory, its counts, and the time of its last request (microseconds, 0 without requests)."""

    name: str
    files: tuple[FileEntry, ...]
    data: tuple[DataFile, ...]
    events: int
    requests: int
    replaced: int
    last: int


class FilePosition(Struct, frozen=True):
    """Position in a growing file: `offset` decompressed bytes, which are `lines` lines.

    Digests of content identify the file, because names, inodes and compression change when a log rotates: `head` is a
    digest of the start of its first line, `tail` of the end of what has been read.
    """

    head: str
    tail: str
    offset: int
    lines: int


class Catalog(Struct, frozen=True):
    """Contents of `store.json`.

    They are the number of parts, the next free numbers, the segments of the store, and how far files are read.
    """

    parts: int = 0
    batch: int = 0
    file: int = 0
    segments: tuple[SegmentEntry, ...] = field(default=())
    positions: tuple[FilePosition, ...] = field(default=())

    @property
    def digests(self) -> frozenset[str]:
        """Digests of the ingested files. The digest of a file that changed during the read is unknown."""
        return frozenset(file.digest for segment in self.segments for file in segment.files if file.digest)

    @property
    def requests(self) -> int:
        """Number of requests in the store."""
        return sum(segment.requests - segment.replaced for segment in self.segments)


def read_catalog(storage: Storage) -> Catalog:
    """Return the catalogue of a store, or an empty one for a new store. Raises `StoreError` for any other place."""
    path = f"{storage.location}/{CATALOG}"
    try:
        document = json.loads(storage.read(CATALOG))
        if not isinstance(document, dict) or document.get("kind") != _KIND:
            raise StoreError("this is no store: name another directory", path=path)
        if document.get("schema") != SCHEMA:
            raise _other_schema(document.get("schema"), storage.location, path)
        if document.pop("check") != _check(document):
            raise ValueError  # noqa: TRY301 - damaged like what is no JSON
        return _catalog_from_json(document)
    except FileNotFoundError:
        _refuse_foreign(storage)
        return Catalog()
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError("damaged: remove the directory and ingest the logs again", path=path) from error
    except OSError as error:
        raise store_error(error, path) from error


def _other_schema(schema: Any, location: str, path: str) -> StoreError:
    """Return the error for a store of another schema.

    A store cannot be converted, because it does not hold whole lines.
    """
    if isinstance(schema, int) and schema > SCHEMA:
        help_ = f"upgrade {NAME}, or name another directory"
    else:
        help_ = f"remove the directory and run `replay ingest LOG --store {location}` with the logs again"
    return StoreError(f"the store has schema {schema}, this replay reads {SCHEMA}: {help_}", path=path)


def _refuse_foreign(storage: Storage) -> None:
    """Raise `StoreError` for a place with other files. It is not turned into a store."""
    names = [entry.name for entry in storage.entries()]
    if any(name.startswith(f"{SEGMENTS}/") and not name.startswith(f"{SEGMENTS}/new-") for name in names):
        raise StoreError(
            "missing: remove the store's directory and ingest the logs again", path=f"{storage.location}/{CATALOG}"
        )
    if any(name.partition("/")[0] not in (WRITERS, READERS, SEGMENTS, FLEET) for name in names):
        raise StoreError(
            "the directory holds other files: name an empty one, or one that is not there", path=storage.location
        )


def _catalog_from_json(document: dict[str, Any]) -> Catalog:
    segments = [
        SegmentEntry(
            **{
                **segment,
                "files": tuple(FileEntry(**file) for file in segment["files"]),
                "data": tuple(DataFile(**file) for file in segment["data"]),
            }
        )
        for segment in document["segments"]
    ]
    named = [name for each in segments for name in (each.name, *(file.path for file in each.data))]
    if any(".." in name.split("/") or name.startswith("/") for name in named):
        raise ValueError  # what is named is below the store, whoever wrote the catalogue
    positions = tuple(FilePosition(**each) for each in document.get("positions", ()))
    return Catalog(int(document["parts"]), int(document["batch"]), int(document["file"]), tuple(segments), positions)


def write_catalog(storage: Storage, catalog: Catalog, *, durable: bool) -> None:
    """Replace the catalogue in one step. With `durable`, all files that it names must be on the disk before."""
    document = {"kind": _KIND, "schema": SCHEMA, **to_builtins(catalog)}
    checked = {**document, "check": _check(document)}
    storage.put(CATALOG, json.dumps(checked, indent=1).encode(), durable=durable)


def _check(document: dict[str, Any]) -> str:
    """Return a digest of the catalogue's contents."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


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


def require_complete(storage: Storage, catalog: Catalog) -> None:
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
