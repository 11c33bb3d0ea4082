"""Layout of a store: the file of each kind of data, and the step that publishes a segment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from replay.audit import queries
from replay.audit.answer import decision_views
from replay.audit.catalog import OPEN, SEGMENTS, Catalog, DataFile, FileEntry, SegmentEntry, write_catalog
from replay.audit.part import Tables
from replay.audit.segment import DROPPED, FILES, REJECTS, Segment
from replay.storage.directory import DirectoryStorage
from replay.storage.storage import Storage


def tables(storage: Storage, catalog: Catalog, part: int | None = None) -> Tables:
    """Return the files of one part, or of all parts."""
    places = [(storage.local(f"{SEGMENTS}/{segment.name}"), segment) for segment in catalog.segments]
    rows = (str(place / file.path) for place, segment in places for file in segment.data if _has_rows(file, part))
    dropped, files, rejects = (tuple(str(place / name) for place, _ in places) for name in (DROPPED, FILES, REJECTS))
    return Tables(tuple(rows), dropped, files, rejects)


def portion(catalog: Catalog, part: int) -> Catalog:
    """Return a catalogue without the rows of other parts."""
    segments = (
        replace(each, data=tuple(file for file in each.data if _has_rows(file, part) or not _has_rows(file)))
        for each in catalog.segments
    )
    return replace(catalog, segments=tuple(segments))


def _has_rows(file: DataFile, part: int | None = None) -> bool:
    """Return whether a file has rows of requests, of one part or of any part."""
    return ("/part=" if part is None else f"/part={part}/") in f"/{file.path}"


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
