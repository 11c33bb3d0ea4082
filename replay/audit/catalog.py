"""What a store consists of: `store.json`, replaced in one step, and the locks that keep processes apart."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from replay.errors import StoreError

SCHEMA = 3
"""The version of the columns and of the layout; a store of another one is refused."""
CATALOG = "store.json"
PARTIAL = ".partial-"
"""What the name of a file that is being written ends with, before the number of its process."""
BUSY = "another process writes to the store: wait for it to end"
IN_USE = "another process reads the store: wait for it to end"
PATIENCE_SECONDS = 120.0
"""How long a process waits for another one that writes to the same store."""
_KIND = "replay store"
_WAIT_SECONDS = 0.2
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


@dataclass(frozen=True)
class FileEntry:
    """A file that was ingested, known again by its content."""

    name: str
    digest: str
    size: int
    lines: int


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a segment: its path there, its size in bytes, its SHA-256, and how many rows it has."""

    path: str
    size: int
    digest: str
    rows: int


@dataclass(frozen=True)
class SegmentEntry:
    """One ingest: its directory, what it gave, and when its last request was (microseconds, 0 without any)."""

    name: str
    files: tuple[FileEntry, ...]
    data: tuple[DataFile, ...]
    events: int
    requests: int
    replaced: int
    last: int


@dataclass(frozen=True)
class Catalog:
    """The content of `store.json`: the number of parts, the next free numbers, and the segments that count."""

    parts: int = 0
    batch: int = 0
    file: int = 0
    segments: tuple[SegmentEntry, ...] = field(default=())

    @property
    def digests(self) -> frozenset[str]:
        """The contents that were ingested; of a file that changed while it was read the content is not known."""
        return frozenset(file.digest for segment in self.segments for file in segment.files if file.digest)

    @property
    def requests(self) -> int:
        """How many requests the store holds."""
        return sum(segment.requests - segment.replaced for segment in self.segments)


def read_catalog(directory: Path) -> Catalog:
    """The catalog of a store, an empty one where there is none yet; raises `StoreError` for anything else."""
    path = directory / CATALOG
    try:
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict) or document.get("kind") != _KIND:
            raise StoreError("this is no store: name another directory", path=str(path))
        if document.get("schema") != SCHEMA:
            raise StoreError(
                f"the store has schema {document.get('schema')}, this replay reads {SCHEMA}: "
                "remove the directory and ingest the logs again",
                path=str(path),
            )
        if document.pop("check") != _check(document):
            raise ValueError  # noqa: TRY301 - damaged like what is no JSON
        return _catalog_from_json(document)
    except FileNotFoundError:
        _refuse_foreign(directory)
        return Catalog()
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError("damaged: remove the directory and ingest the logs again", path=str(path)) from error
    except OSError as error:
        raise store_error(error, path) from error


def _refuse_foreign(directory: Path) -> None:
    """A directory that holds something else is not turned into a store."""
    if not directory.is_dir():
        return
    if any(not path.name.startswith("new-") for path in directory.glob("segments/*")):
        raise StoreError(
            "missing: remove the store's directory and ingest the logs again", path=str(directory / CATALOG)
        )
    known = {"lock", "readers", "segments"}
    if any(entry.name not in known and PARTIAL not in entry.name for entry in directory.iterdir()):
        raise StoreError(
            "the directory holds other files: name an empty one, or one that is not there", path=str(directory)
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
    return Catalog(int(document["parts"]), int(document["batch"]), int(document["file"]), tuple(segments))


def write_catalog(directory: Path, catalog: Catalog, *, durable: bool) -> None:
    """Replace the catalog in one step; with `durable` after all that it names is on the disk."""
    document = {"kind": _KIND, "schema": SCHEMA, **asdict(catalog)}
    checked = {**document, "check": _check(document)}
    replace_file(directory / CATALOG, json.dumps(checked, indent=1).encode(), durable=durable)


def _check(document: dict[str, Any]) -> str:
    """A digest of all that a catalog says."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def replace_file(path: Path, content: bytes, *, durable: bool) -> None:
    """Write a file so that it is never seen half written."""
    temporary = path.with_name(f"{path.name}{PARTIAL}{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """Wait until everything below a directory is on the disk."""
    for path in directory.rglob("*"):
        sync(path)
    sync(directory)


@contextmanager
def locked(path: Path, what: str, *, shared: bool = False, patience: float | None = None) -> Iterator[None]:
    """Hold a lock file; raises `StoreError` saying `what` if another process holds it for longer than `patience` seconds.

    On a file system that is mounted read-only nobody can write, so that readers share a lock file that is there, or none.
    """
    descriptor = _lock_file(path, shared=shared)
    try:
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        if descriptor is not None:
            _acquire(descriptor, path, what, mode, PATIENCE_SECONDS if patience is None else patience)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock_file(path: Path, *, shared: bool) -> int | None:
    """A descriptor of a lock file, None where there is none and none can be made, which only readers may put up with."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise store_error(error, path) from error
        if not shared:
            raise StoreError("the store is read-only", path=str(path.parent)) from error
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return None


def _acquire(descriptor: int, path: Path, what: str, mode: int, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise StoreError(what, path=str(path.parent)) from error
            time.sleep(_WAIT_SECONDS)
        else:
            return


def store_error(error: OSError, path: Path) -> StoreError:
    """What the operating system refused, as the operator's error."""
    return StoreError((error.strerror or str(error)).lower(), path=str(error.filename or path))
