"""One ingest: rows of requests, rows that do not count, and rejected lines, as Parquet files in one directory, and its counts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson
from msgspec import Struct, field

from replay.audit import queries
from replay.audit.catalog import DataFile, data_files
from replay.audit.engine import literal
from replay.audit.format.form import FileForm, Layout
from replay.audit.format.recognise import beginning
from replay.audit.format.table import products
from replay.audit.ingest import ROW_BITS, LogReader, ReadFile, SegmentNumbers, implausible_days
from replay.audit.reject import EXPLANATIONS, Reject, RejectReason, Rejects
from replay.audit.salvage import BLANK, LONGEST_READ, documents
from replay.audit.source import LogFile, open_log
from replay.on_demand import pl

# Location of rejected lines and reasons. The files with rejects are read a second time.

SHOWN = 200
"""Number of bytes of a rejected line that are kept."""


class _RejectedRow(NamedTuple):
    """A row of the ingest that is not used: the number of its file, and of the row (or of the list that had it)."""

    file: int
    row: int
    reason: RejectReason
    audit_id: str


class _Line(NamedTuple):
    """A line of a file: its number, its beginning, and its problem if requested."""

    number: int
    beginning: bytes
    reason: RejectReason | None


def _located(rows: Iterable[_RejectedRow], files: Sequence[ReadFile]) -> Iterator[Reject]:
    """Yield the rejects with file, line and the beginning of the line, by file and line."""
    by_file: dict[int, list[_RejectedRow]] = {}
    for row in rows:
        by_file.setdefault(row.file, []).append(row)
    for file in files:
        reject_rows = sorted(by_file.get(file.number, ()), key=lambda row: row.row)
        if reject_rows:
            lines = _lines(
                file, {row.row - file.first_row: row.reason is RejectReason.MALFORMED for row in reject_rows}
            )
            yield from (_reject(file, row, lines) for row in reject_rows)


def _reject(source: ReadFile, row: _RejectedRow, lines: Mapping[int, _Line]) -> Reject:
    """Return one reject. A line that the second reading does not reach lies after the damage of a compressed file."""
    place, lines_before = row.row - source.first_row, source.file.lines_before
    line = lines.get(place)
    if line is None:
        return Reject(source.file.name, lines_before + place + 1, RejectReason.DAMAGED, row.audit_id, "")
    text = line.beginning.decode("utf-8", "replace").rstrip("\r\n")
    return Reject(source.file.name, lines_before + line.number, line.reason or row.reason, row.audit_id, text)


def _reason(text: bytes, form: FileForm) -> RejectReason:
    """Return why a line is not an event, more precisely than the bulk reader."""
    if len(text) > LONGEST_READ:
        return RejectReason.TOO_LONG
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        is_cut = not text.endswith(b"\n") and text.lstrip(BLANK).startswith(b"{")
        return RejectReason.TRUNCATED if is_cut else RejectReason.MALFORMED
    is_other = isinstance(value, dict) and not form.wraps(value)
    return RejectReason.NOT_AN_EVENT if is_other else RejectReason.MALFORMED


def _lines(source: ReadFile, places: Mapping[int, bool]) -> dict[int, _Line]:
    """Return the lines at some places.

    Places count from 0 without blank lines, as the reader of all lines counts them. The values of `places` say whether
    to find the problem of the line.
    """
    wanted_places = iter(sorted(places))
    lines: dict[int, _Line] = {}
    target = next(wanted_places, None)
    place = -1
    with open_log(source.file) as stream:
        for number, text in _documents(stream) if source.form.layout is Layout.DOCUMENTS else _numbered(stream):
            if not text.strip(BLANK):
                continue
            place += 1
            if place == target:
                lines[place] = _Line(number, text[:SHOWN], _reason(text, source.form) if places[place] else None)
                target = next(wanted_places, None)
                if target is None:
                    break
    return lines


def _documents(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the documents with the numbers of their first lines, up to where the file can be decompressed."""
    with suppress(OSError, EOFError):
        yield from documents(stream, LONGEST_READ)


def _numbered(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers from 1, up to where the file can be decompressed.

    Only the beginning of a very long line is returned.
    """
    number = 0
    try:
        while line := stream.readline(LONGEST_READ + 1):
            number += 1
            yield number, line
            while len(line) > LONGEST_READ and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_READ + 1)
    except (OSError, EOFError):
        return


SUPERSEDED = "superseded"
DROPPED = "dropped.parquet"
FILES = "files.parquet"
REJECTS = "rejects.parquet"
_REJECT_SCHEMA = {"file": str, "line": int, "reason": str, "audit_id": str, "text": str}
_DROPPED_SCHEMA = {"row_id": int, "part": int}


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
    implausible = _implausible(reader, segment)
    repeated = _repeated(reader, is_first=is_first)
    new = [row for row in repeated if row.row_id >= reader.numbers.batch << ROW_BITS]
    segment.requests = segment.events - len(new)
    segment.replaced = len(repeated) - len(new)
    segment.superseded = sum(row.reason == SUPERSEDED for row in repeated)
    rows = [
        _RejectedRow(row.file, row.line_row, RejectReason(row.reason), row.audit_id)
        for row in (*implausible, *new)
        if row.reason != SUPERSEDED
    ]
    rejects = [*reader.damaged, *_located(_rejected_rows(reader) + rows, reader.files)]
    segment.rejects.add(rejects)
    _write(reader.target, [*implausible, *repeated], rejects)
    return segment


def finished(reader: LogReader) -> tuple[DataFile, ...]:
    """Complete the segment of a reader with the list of its files. Remove what only the ingest needed."""
    target = reader.target
    rows = [(f.number, f.file.name, f.first_row - f.file.lines_before, f.lines, f.size) for f in reader.files]
    schema = {"file_id": pl.Int32, "name": pl.String, "first_row": pl.Int64, "lines": pl.Int64, "size": pl.Int64}
    pl.DataFrame(rows, schema, orient="row").write_parquet(target / FILES)
    for spare in target.glob("salvaged-*"):
        spare.unlink()
    for unusable in target.glob("rows-*/part=-1"):
        shutil.rmtree(unusable)
    reader.connection.execute("drop view if exists old_row; drop view if exists new_row")  # questions may come next
    return data_files(reader.connection, target, target.rglob("*.parquet"), is_kept=reader.is_kept)


def _implausible(reader: LogReader, segment: Segment) -> list[DroppedRow]:
    """Return new rows with an implausible time, and tell the segment of the others. The view `new_row` has only these."""
    if not (paths := reader.paths()):
        return []
    define = reader.connection.execute
    define(f"set variable new_rows = [{', '.join(map(literal, paths))}]")
    define(queries.text("ingest_new_row"))
    rows = define(queries.text("ingest_days")).fetchall()
    days = implausible_days({day: events for day, events, _ in rows})
    segment.events = sum(events for day, events, _ in rows if day not in days)
    segment.last = max((last for day, _, last in rows if day not in days), default=0)
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


def _rejected_rows(reader: LogReader) -> list[_RejectedRow]:
    """Return the rows that are not events. If a file was read twice, those of the second time.

    A line that another reading of its file reads is not among them.
    """
    if not (paths := reader.paths(-1)):
        return []
    by_number = {file.number: file for file in reader.files}
    rows = reader.connection.execute(queries.text("ingest_rejected"), {"paths": paths}).fetchall()
    return [
        _RejectedRow(file, row, RejectReason(reason), audit_id)
        for file, row, reason, audit_id in rows
        if row >= by_number[file].first_row and row - by_number[file].first_row not in by_number[file].other_places
    ]


def _write(target: Path, dropped: Sequence[DroppedRow], rejects: Sequence[Reject]) -> None:
    """Write both lists, even if they are empty."""
    rows = [(row.row_id, row.part) for row in dropped]
    pl.DataFrame(rows, _DROPPED_SCHEMA, orient="row").write_parquet(target / DROPPED)
    pl.DataFrame(rejects, _REJECT_SCHEMA, orient="row").write_parquet(target / REJECTS)


class IngestReport(Struct, frozen=True):
    """Counts of an ingest. `files` counts files read now, `known_files` those whose content the store already has.

    `lines` are not blank, `bytes` are stored sizes, `events` are usable lines, `requests` are distinct requests, and
    `superseded` are events that a later stage of the same request replaces. The remaining lines are `rejects`.
    """

    files: int = 0
    known_files: int = 0
    lines: int = 0
    bytes: int = 0
    events: int = 0
    requests: int = 0
    superseded: int = 0
    rejects: Rejects = field(default_factory=Rejects)

    def __add__(self, later: IngestReport) -> IngestReport:
        """Add the counts of a later ingest."""
        return IngestReport(
            files=self.files + later.files,
            known_files=self.known_files + later.known_files,
            lines=self.lines + later.lines,
            bytes=self.bytes + later.bytes,
            events=self.events + later.events,
            requests=self.requests + later.requests,
            superseded=self.superseded + later.superseded,
            rejects=self.rejects + later.rejects,
        )


def report_of(segment: Segment, files: Sequence[LogFile], known_files: int) -> IngestReport:
    """Return the counts of a segment and of the files that were skipped."""
    return IngestReport(
        files=len(files),
        known_files=known_files,
        lines=segment.lines,
        bytes=sum(file.size for file in files),
        events=segment.events,
        requests=segment.requests,
        superseded=segment.superseded,
        rejects=segment.rejects,
    )


def refusal_of_nothing(rejects: Rejects) -> str:
    """Return the reason why a log without any event is refused."""
    if not rejects.total:
        return "no audit event: the log is empty or cut off"
    reason, count = rejects.counts.most_common(1)[0]
    reason_text = f"no audit event: {count} of {rejects.total} unusable lines are `{reason}` ({EXPLANATIONS[reason]})"
    fields = beginning(rejects.examples[reason][0].text)
    if reason not in (RejectReason.NOT_AN_EVENT, RejectReason.MALFORMED) or not isinstance(fields, dict) or not fields:
        return reason_text
    named = ", ".join(f"`{name}`" for name in fields)
    return (
        f"{reason_text}; no known format has lines with the fields {named}: "
        f"say what wrote them with --from {'|'.join(products())}, or see docs/logs.md"
    )
