"""Which file of a store holds what, and how a store comes to count."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from replay.audit import queries
from replay.audit.catalog import Catalog, DataFile, FileEntry, SegmentEntry, replace_file, write_catalog
from replay.audit.directory.integrity import SEGMENTS
from replay.audit.part import Tables
from replay.audit.segment import DROPPED, FILES, REJECTS, Segment


def tables(directory: Path, catalog: Catalog, part: int | None = None) -> Tables:
    """The files of one part, or of all."""
    wanted = "/part=" if part is None else f"/part={part}/"
    places = [(directory / SEGMENTS / segment.name, segment) for segment in catalog.segments]
    rows = (str(place / file.path) for place, segment in places for file in segment.data if wanted in f"/{file.path}")
    dropped, files, rejects = (tuple(str(place / name) for place, _ in places) for name in (DROPPED, FILES, REJECTS))
    return Tables(tuple(rows), dropped, files, rejects)


def segment_entry(name: str, segment: Segment, digests: Mapping[int, str], data: tuple[DataFile, ...]) -> SegmentEntry:
    """A segment as the catalog names it; `digests` are those of its files by number."""
    files = tuple(
        FileEntry(read.file.name, digests.get(read.number, ""), read.file.size, read.lines) for read in segment.files
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


def write_store(directory: Path, catalog: Catalog, *, kept: bool) -> None:
    """Make a catalog the one that counts."""
    write_catalog(directory, catalog, durable=kept)
    if kept:
        views = "\n".join([tables(directory, catalog).views(), queries.text("ingest_decision_views")])
        replace_file(directory / "open.sql", views.encode(), durable=False)
