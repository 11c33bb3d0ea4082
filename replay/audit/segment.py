"""One ingest: rows of requests, rows that do not count, and rejected lines, as Parquet files in one directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
from msgspec import Struct, field

from replay.audit import queries
from replay.audit.catalog import DataFile
from replay.audit.directory.integrity import data_files
from replay.audit.engine import literal
from replay.audit.ingest import ROW_BITS, LogReader, ReadFile, SegmentNumbers
from replay.audit.locate import RejectedRow, located
from replay.audit.moment import implausible_days
from replay.audit.reject import Reject, RejectReason, Rejects
from replay.audit.source import LogFile

SUPERSEDED = "superseded"
DROPPED = "dropped.parquet"
FILES = "files.parquet"
REJECTS = "rejects.parquet"
_REJECT_SCHEMA = {"file": pl.String, "line": pl.Int64, "reason": pl.String, "audit_id": pl.String, "text": pl.String}
_DROPPED_SCHEMA = {"row_id": pl.Int64, "part": pl.Int64}
_FILE_SCHEMA = {"file_id": pl.Int32, "name": pl.String, "first_row": pl.Int64, "lines": pl.Int64, "size": pl.Int64}


class DroppedRow(NamedTuple):
    """A row that does not count.

    Another row is about the same request (`ingest_superseded.sql`), or its time is implausible.
    """

    row_id: int
    line_row: int
    file: int
    part: int
    audit_id: str
    reason: str


class Segment(Struct):
    """Result of one ingest. `events` are usable, `requests` count, `lines` are all lines that are not blank.

    `superseded` counts earlier stages of requests, and `replaced` those among them that an earlier ingest read. `last`
    is the time of the last request in microseconds.
    """

    files: list[ReadFile]
    numbers: SegmentNumbers
    lines: int = 0
    events: int = 0
    requests: int = 0
    superseded: int = 0
    replaced: int = 0
    last: int = 0
    rejects: Rejects = field(default_factory=Rejects)


def write_segment(reader: LogReader, files: Sequence[LogFile], *, is_first: bool) -> Segment:
    """Read files into the reader's empty directory. Unless `is_first`, the view `counted_row` has the rows so far."""
    reader.read(files, os.cpu_count() or 1)
    segment = Segment(reader.files, reader.next_numbers, lines=sum(file.lines for file in reader.files))
    implausible = _implausible(reader)
    repeated = _repeated(reader, is_first=is_first)
    new = [row for row in repeated if row.row_id >= reader.numbers.batch << ROW_BITS]
    if segment.lines:
        segment.events, segment.last = _totals(reader)
    segment.requests = segment.events - len(new)
    segment.replaced = len(repeated) - len(new)
    segment.superseded = sum(row.reason == SUPERSEDED for row in repeated)
    rows = [
        RejectedRow(row.file, row.line_row, RejectReason(row.reason), row.audit_id)
        for row in (*implausible, *new)
        if row.reason != SUPERSEDED
    ]
    rejects = [*reader.damaged, *located(_rejected_rows(reader) + rows, reader.files)]
    segment.rejects.add(rejects)
    _write(reader.target, [*implausible, *repeated], rejects)
    return segment


def finished(reader: LogReader) -> tuple[DataFile, ...]:
    """Complete the segment of a reader with the list of its files. Remove what only the ingest needed."""
    target = reader.target
    rows = [(f.number, f.file.name, f.first_row - f.file.lines_before, f.lines, f.size) for f in reader.files]
    pl.DataFrame(rows, _FILE_SCHEMA, orient="row").write_parquet(target / FILES)
    for spare in target.glob("salvaged-*"):
        spare.unlink()
    for unusable in target.glob("rows-*/part=-1"):
        shutil.rmtree(unusable)
    reader.connection.execute("drop view if exists old_row; drop view if exists new_row")  # questions may come next
    return data_files(reader.connection, target, target.rglob("*.parquet"), is_kept=reader.is_kept)


def _totals(reader: LogReader) -> tuple[int, int]:
    """Return the number of new rows that are events, and the time of the last one."""
    row = reader.connection.execute("select count(*), coalesce(max(epoch_us(stage_time)), 0) from new_row").fetchone()
    return row if row is not None else (0, 0)


def _implausible(reader: LogReader) -> list[DroppedRow]:
    """Return new rows with an implausible time. The view `new_row` excludes them."""
    if not (paths := reader.paths()):
        return []
    define = reader.connection.execute
    define(f"set variable new_rows = [{', '.join(map(literal, paths))}]")
    define(queries.text("ingest_new_row"))
    days = implausible_days(dict(define(queries.text("ingest_days")).fetchall()))
    if not days:
        return []
    define(f"set variable implausible_days = [{', '.join(f'date {literal(day)}' for day in days)}]")
    return [DroppedRow(*row) for row in define(queries.text("ingest_implausible")).fetchall()]


def _repeated(reader: LogReader, *, is_first: bool) -> list[DroppedRow]:
    """Return the new and old rows that no longer count, because another row is about the same request."""
    if not reader.paths():
        return []
    define = reader.connection.execute
    define(queries.text("ingest_no_old_row" if is_first else "ingest_old_row"))
    rows = define(queries.text("ingest_superseded")).fetchall()
    return [DroppedRow(*row) for row in rows]


def _rejected_rows(reader: LogReader) -> list[RejectedRow]:
    """Return the rows that are not events. If a file was read twice, those of the second time.

    A line that another reading of its file reads is not among them.
    """
    if not (paths := reader.paths(-1)):
        return []
    by_number = {file.number: file for file in reader.files}
    rows = reader.connection.execute(queries.text("ingest_rejected"), {"paths": paths}).fetchall()
    return [
        RejectedRow(file, row, RejectReason(reason), audit_id)
        for file, row, reason, audit_id in rows
        if row >= by_number[file].first_row and row - by_number[file].first_row not in by_number[file].other_places
    ]


def _write(target: Path, dropped: Sequence[DroppedRow], rejects: Sequence[Reject]) -> None:
    """Write both lists, even if they are empty."""
    rows = [(row.row_id, row.part) for row in dropped]
    pl.DataFrame(rows, _DROPPED_SCHEMA, orient="row").write_parquet(target / DROPPED)
    pl.DataFrame(rejects, _REJECT_SCHEMA, orient="row").write_parquet(target / REJECTS)
