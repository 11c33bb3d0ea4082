"""What stands in the directory of a store: segments, remembered answers, and how both are kept in order.

`write_store` publishes a segment. Answers that depend only on a store and the code are remembered for the next run. They
are never the only source: a missing or damaged answer, or one of another store or version, is computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import accumulate
from pathlib import Path, PurePosixPath

from msgspec import to_builtins
from msgspec.structs import replace

from replay.audit import queries
from replay.audit.answer import decision_views
from replay.audit.catalog import (
    BUSY,
    IN_USE,
    OPEN,
    READERS,
    SCHEMA,
    SEGMENTS,
    WRITERS,
    Catalog,
    DataFile,
    FileEntry,
    SegmentEntry,
    data_files,
    read_catalog,
    require_complete,
    write_catalog,
)
from replay.audit.engine import INGEST_MEMORY, connect, literal
from replay.audit.ingest import KEPT, PARQUET
from replay.audit.part import Tables
from replay.audit.segment import DROPPED, FILES, REJECTS, Segment
from replay.errors import StoreError
from replay.on_demand import duckdb
from replay.storage.directory import DirectoryStorage, store_error
from replay.storage.location import opened
from replay.storage.scratch import scratch
from replay.storage.storage import Storage


def tables(storage: Storage, catalog: Catalog, parts: Collection[int] | None = None) -> Tables:
    """Return the files of some parts, or of all parts."""
    places = [(storage.local(f"{SEGMENTS}/{segment.name}"), segment) for segment in catalog.segments]
    rows = (str(place / file.path) for place, segment in places for file in segment.data if _has_rows(file, parts))
    dropped, files, rejects = (tuple(str(place / name) for place, _ in places) for name in (DROPPED, FILES, REJECTS))
    return Tables(tuple(rows), dropped, files, rejects)


def neighbours(catalog: Catalog, parts: int, fewest: int, most_octets: int) -> list[list[int]]:
    """Return the numbers of all parts, in groups of neighbours.

    There are at least `fewest` groups, or one for each part. The files of several parts in a group have at most
    `most_octets` bytes.
    """
    together = max(parts // max(fewest, 1), 1)
    groups: list[list[int]] = []
    octets = 0
    for number in range(parts):
        files = (file for segment in catalog.segments for file in segment.data if _has_rows(file, (number,)))
        size = sum(file.size for file in files)
        if not groups or len(groups[-1]) == together or octets + size > most_octets:
            groups.append([])
            octets = 0
        groups[-1].append(number)
        octets += size
    return groups


def portion(catalog: Catalog, part: int) -> Catalog:
    """Return a catalogue without the rows of other parts."""
    segments = (
        replace(each, data=tuple(file for file in each.data if _has_rows(file, (part,)) or not _has_rows(file)))
        for each in catalog.segments
    )
    return replace(catalog, segments=tuple(segments))


def _has_rows(file: DataFile, parts: Collection[int] | None = None) -> bool:
    """Return whether a file has rows of requests, of some parts or of any part."""
    marks = ("/part=",) if parts is None else [f"/part={part}/" for part in parts]
    return any(mark in f"/{file.path}" for mark in marks)


def segment_entry(name: str, segment: Segment, digests: Mapping[int, str], data: tuple[DataFile, ...]) -> SegmentEntry:
    """Return the catalogue entry of a segment. `digests` are those of its files by number."""
    files = tuple(
        FileEntry(file.file.name, digests.get(file.number, ""), file.file.size, file.lines) for file in segment.files
    )
    return SegmentEntry(
        name=name,
        files=files,
        data=data,
        events=segment.events,
        requests=segment.requests,
        replaced=segment.replaced,
        last=segment.last,
    )


def write_store(storage: Storage, catalog: Catalog, *, durable: bool) -> None:
    """Publish a catalogue. From then on, its segments count."""
    write_catalog(storage, catalog, durable=durable)
    if durable:
        # Relative, so that a store can be moved: `open.sql` is read where the variable `store` says, or here.
        relative = tables(DirectoryStorage(Path()), catalog)
        views = "\n".join([relative.variables("getvariable('store')"), queries.text("ingest_views"), decision_views()])
        storage.put(OPEN, f"set variable store = coalesce(getvariable('store'), '.');\n{views}".encode())


REMEMBERED = "remembered"
MOST_REMEMBERED = 4
"""Number of answers of one name that are kept. The oldest are removed."""
_CHECK = 32
_PACKAGE = Path(__file__).parents[1]


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


@contextmanager
def kept_beside(
    location: Path | str | None, name: str, make: Callable[[bytes], bytes]
) -> Iterator[Callable[[bytes], bytes]]:
    """Yield `make` with results that are kept beside the store at a location, which may not exist before the end.

    The result may depend only on its argument. It is kept as an answer called `name`.
    """
    made: dict[str, bytes] = {}

    def result(content: bytes) -> bytes:
        place = f"{REMEMBERED}/{name}.{hashlib.sha256(content).hexdigest()[:32]}"
        if (known := read(place)) is None:
            known = made[place] = make(content)
        return known

    def read(place: str) -> bytes | None:
        with ExitStack() as stack, suppress(StoreError, OSError):
            return _read(opened(location, stack), place) if location is not None else None
        return None  # the store is opened later, which reports what is wrong with it

    yield result
    if made and location is not None:
        with ExitStack() as stack, suppress(StoreError, OSError):
            storage = opened(location, stack)
            for place, content in made.items():
                storage.put(place, _check(place, content) + content)
            _forget_oldest(storage, name)


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
    lines = (f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in sorted(code_files().items()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def code_files() -> dict[str, os.stat_result]:
    """Return the files of this installation on which answers depend, by their path in the package or beside it."""
    files: dict[str, os.stat_result] = {}
    folders = [(_PACKAGE.name, str(_PACKAGE)), ("queries", str(queries.folder()))]
    # `Path.rglob` takes five times as long, in every run on a store.
    while folders:
        name, folder = folders.pop()
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                folders.append((f"{name}/{entry.name}", entry.path))
            elif entry.name.endswith((".py", ".json", ".sql")):
                files[f"{name}/{entry.name}"] = entry.stat()
    return files


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
        require_complete(storage, replace(catalog, segments=sum(compactable(catalog.segments), ())))
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
