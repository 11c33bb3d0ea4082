"""Upkeep of a store: removes old segments and the remains of killed processes, and combines small ingests.

Each ingest has a file per part, and every reader checks all files. As in a log-structured merge tree, ingests of
similar size become one of the next size. Each step writes a row once more. Only ingests of one day are combined, so
that `prune` can still remove old days.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import accumulate
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from replay.audit.catalog import BUSY, IN_USE, READERS, SEGMENTS, WRITERS, SegmentEntry, read_catalog
from replay.audit.directory.integrity import data_files, require_whole
from replay.audit.directory.layout import write_store
from replay.audit.directory.remembered import REMEMBERED
from replay.audit.engine import INGEST_MEMORY, connect, literal
from replay.audit.ingest import KEPT, PARQUET
from replay.errors import StoreError
from replay.on_demand import duckdb
from replay.storage.directory import store_error
from replay.storage.scratch import scratch
from replay.storage.storage import Storage


def segments_to_keep(
    segments: Sequence[SegmentEntry], instant: int, octets: int | None = None
) -> tuple[SegmentEntry, ...]:
    """Return the segments whose last request was not before an instant (microseconds).

    If `octets` is given, only the newest of them that fit into so many bytes.
    """
    recent = sorted((segment for segment in segments if segment.last >= instant), key=lambda segment: -segment.last)
    sizes = accumulate(segment_octets(segment) for segment in recent)
    names = {segment.name for segment, size in zip(recent, sizes, strict=True) if octets is None or size <= octets}
    return tuple(segment for segment in segments if segment.name in names)


def segment_octets(segment: SegmentEntry) -> int:
    """Return the size of an ingest on the disk, in bytes."""
    return sum(file.size for file in segment.data)


def prune_store(storage: Storage, instant: int, octets: int | None = None) -> int:
    """Remove the ingests of a store that are not among the `segments_to_keep`, and return their number.

    Leftovers of an interrupted ingest are removed too. Raises `StoreError` if another process uses the store.
    """
    with storage.locked(WRITERS, BUSY), storage.locked(READERS, IN_USE, patience=0):
        catalog = read_catalog(storage)
        recent = segments_to_keep(catalog.segments, instant, octets)
        write_store(storage, replace(catalog, segments=recent), durable=True)
        storage.remove(REMEMBERED)
        sweep_segments(storage)
    return len(catalog.segments) - len(recent)


def sweep(storage: Storage) -> None:
    """Remove leftovers of killed processes, unless another process writes to the store or the store is read-only."""
    with suppress(StoreError, OSError), storage.locked(WRITERS, BUSY, patience=0):
        sweep_segments(storage)
    storage.sweep()


def sweep_segments(storage: Storage) -> None:
    """Remove the segments that are not in the catalogue. No other process may write, because its segment is not in it yet."""
    names = {segment.name for segment in read_catalog(storage).segments}
    for name in storage.folders(f"{SEGMENTS}/"):
        if name not in names:
            storage.remove(f"{SEGMENTS}/{name}")


TOGETHER = 8
"""Number of ingests of one size that become one, and the ratio of a size to the next. It must be a power of two."""
LARGEST = 1 << 30
"""Largest size of a combined ingest in bytes, because `prune` removes it as a whole."""
_ROWS = 8192
"""Rows in a compressed group. A reader of one row decompresses its group."""
_DAY = 24 * 3600 * 1_000_000
_BETWEEN = "_"


def compactable(segments: Iterable[SegmentEntry]) -> list[tuple[SegmentEntry, ...]]:
    """Return the groups of ingests that should become one each."""
    alike: dict[tuple[int, int], list[SegmentEntry]] = defaultdict(list)
    for segment in segments:
        size = (segment.events.bit_length() - 1) // (TOGETHER.bit_length() - 1)
        alike[segment.last // _DAY, size].append(segment)
    runs = (tuple(_not_too_large(alike_segments)) for alike_segments in alike.values())
    return [run for run in runs if len(run) >= TOGETHER]


def _not_too_large(segments: Sequence[SegmentEntry]) -> Iterator[SegmentEntry]:
    sizes = accumulate(segment_octets(segment) for segment in segments)
    return (segment for segment, size in zip(segments, sizes, strict=True) if size <= LARGEST)


def compact_store(storage: Storage) -> int:
    """Combine small ingests of a store, and return the number that disappeared. The contents stay the same.

    Raises `StoreError` if another process uses the store, a file is damaged, or the store cannot be written. The store
    is then unchanged.
    """
    try:
        return _compacted(storage)
    except OSError as error:
        raise store_error(error, storage.location) from error
    except duckdb.Error as error:
        raise StoreError(" ".join(str(error).split()), path=storage.location) from error


def _compacted(storage: Storage) -> int:
    with storage.locked(WRITERS, BUSY), storage.locked(READERS, IN_USE, patience=0):
        old_catalog = catalog = read_catalog(storage)
        require_whole(storage, replace(catalog, segments=sum(compactable(catalog.segments), ())))
        for run in compactable(catalog.segments):
            merged = _merged(storage, run)
            segments = (merged if each is run[0] else each for each in catalog.segments if each not in run[1:])
            catalog = replace(catalog, segments=tuple(segments))
            write_store(storage, catalog, durable=True)
        sweep_segments(storage)
    return len(old_catalog.segments) - len(catalog.segments)


def _merged(storage: Storage, run: Sequence[SegmentEntry]) -> SegmentEntry:
    """Combine several segments into one, and return its entry. The new files are in place, but not in the catalogue."""
    name = run[0].name.partition(_BETWEEN)[0] + _BETWEEN + run[-1].name.rpartition(_BETWEEN)[2]
    target = storage.workspace(SEGMENTS)
    with ExitStack() as stack:
        spill = stack.enter_context(scratch())
        connection = stack.enter_context(connect(str(spill), os.cpu_count() or 1, INGEST_MEMORY))
        for path, sources in _sources(storage, run).items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            _write(connection, sources, target / path)
        data = data_files(connection, target, target.rglob("*.parquet"), is_kept=True)
    storage.adopt(target, f"{SEGMENTS}/{name}", durable=True)
    return SegmentEntry(
        name=name,
        files=tuple(file for segment in run for file in segment.files),
        data=data,
        events=sum(segment.events for segment in run),
        requests=sum(segment.requests for segment in run),
        replaced=sum(segment.replaced for segment in run),
        last=max(segment.last for segment in run),
    )


def _sources(storage: Storage, run: Sequence[SegmentEntry]) -> dict[str, list[Path]]:
    """Return the source files of each combined file, by its path: the rows of each part, and the other tables."""
    sources: dict[str, list[Path]] = defaultdict(list)
    for segment in run:
        for file in segment.data:
            path = PurePosixPath(file.path)
            part = f"rows/{path.parent.name}/{path.parent.name}.parquet"
            sources[part if path.parent.name else file.path].append(
                storage.local(f"{SEGMENTS}/{segment.name}/{file.path}")
            )
    return sources


def _write(connection: duckdb.DuckDBPyConnection, sources: Sequence[Path], target: Path) -> None:
    files = ", ".join(map(literal, sources))
    connection.execute(
        f"copy (from read_parquet([{files}], hive_partitioning = false)) to {literal(target)} ({PARQUET}, {KEPT}, row_group_size {_ROWS})"
    )
