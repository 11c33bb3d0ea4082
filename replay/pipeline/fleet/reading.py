"""Ingest of files by a fleet: workers read whole batches of files that they see as this machine does.

Other files are read here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from replay.audit.engine import INGEST_MEMORY, connect
from replay.audit.ingest import READING, Batch, LogReader, Progress, ReadFile, SegmentNumbers
from replay.audit.source import LogFile, log_files
from replay.errors import AuditLogError
from replay.pipeline.replay.workers import completed
from replay.storage.location import is_bucket

Rows = dict[str, Path]
"""Parquet files of a batch by their names below the directory of an ingest."""


class FleetReader(Struct, frozen=True):
    """Reads batches with the workers of an executor. See `BatchReader`. `spool` is a directory of this run."""

    executor: Executor
    spool: Path

    def read(self, batches: Sequence[Batch], parts: int, target: Path, progress: Progress) -> list[Batch]:
        """See `BatchReader.read`."""
        run = BatchJob(self.spool, parts).run
        futures = {self.executor.submit(run, NamedBatch.from_batch(batch)): batch for batch in batches}
        try:
            return _written(futures, target, progress)
        except BaseException:
            for future in futures:
                future.cancel()
            raise


class NamedBatch(NamedTuple):
    """A batch whose files have names by which other processes find them.

    Files of a bucket are verified by their `digests`, in the order of the files. Other files have an empty digest.
    """

    batch: Batch
    digests: tuple[str, ...]

    @classmethod
    def from_batch(cls, batch: Batch) -> NamedBatch:
        """Return a batch of this machine with portable names."""
        files = [replace(file, file=replace(file.file, path=_name(file.file))) for file in batch.files]
        digests = (file.file.digest() if is_bucket(file.file.name) else "" for file in batch.files)
        return cls(Batch(files, batch.number), tuple(digests))


class BatchJob(Struct, frozen=True):
    """Job for batches: split the rows into parts, and write below `spool`."""

    spool: Path
    parts: int

    def run(self, named: NamedBatch) -> Rows | None:
        """Return the rows of a batch.

        None if a file differs from the one that was found, or must be read by itself.
        """
        batch = named.batch
        with ExitStack() as held:
            files_here = [
                _same_file(file, digest, self.spool, held)
                for file, digest in zip(batch.files, named.digests, strict=True)
            ]
            files = [file for file in files_here if file is not None]
            if len(files) < len(files_here):
                return None
            with connect(str(self.spool), threads=1, memory=INGEST_MEMORY) as connection:
                reader = LogReader(
                    connection, self.spool, SegmentNumbers(self.parts), lambda _what, _count, _total: None
                )
                if not reader.copied(connection, Batch(files, batch.number)):
                    return None
            if not all(file.file.is_unchanged for file in files):
                return None
        return {str(path.relative_to(self.spool)): path for path in self.spool.rglob("*.parquet")}


def _name(file: LogFile) -> str:
    return file.name if is_bucket(file.name) else os.path.abspath(file.name)  # noqa: PTH100 - any text


def _same_file(file: ReadFile, digest: str, spool: Path, held: ExitStack) -> ReadFile | None:
    """Return a file as this machine sees it, None if it is another one.

    It is compared by its digest, or by size and time without one.
    """
    own = spool / f"file-{file.number}"
    own.mkdir(exist_ok=True)
    try:
        (own_file,) = log_files([file.file.path], own, held)
    except (AuditLogError, ValueError):
        return None
    is_same = own_file.digest() == digest if digest else own_file.stamp[2:] == file.file.stamp[2:]
    return replace(file, file=own_file) if is_same else None


def _written(futures: dict[Future[Rows | None], Batch], target: Path, progress: Progress) -> list[Batch]:
    """Write the rows of each batch to its place as they arrive; return the batches without rows."""
    total = sum(batch.size for batch in futures.values())
    unread, count = [], 0
    progress(READING, count, total)
    for future in completed(futures):
        batch, rows = futures[future], future.result()
        count += batch.size
        progress(READING, count, total)
        if rows is None:
            unread.append(batch)
            continue
        for name, path in rows.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
    return sorted(unread, key=lambda batch: batch.number)
