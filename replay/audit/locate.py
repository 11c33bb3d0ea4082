"""Location of rejected lines and reasons. The files with rejects are read a second time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple

import orjson

from replay.audit.file.documents import documents
from replay.audit.file.salvage import BLANK, LONGEST_READ
from replay.audit.format.form import FileForm, Layout
from replay.audit.ingest import ReadFile
from replay.audit.reject import Reject, RejectReason
from replay.audit.source import open_log

SHOWN = 200
"""Number of bytes of a rejected line that are kept."""


class RejectedRow(NamedTuple):
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


def located(rows: Iterable[RejectedRow], files: Sequence[ReadFile]) -> Iterator[Reject]:
    """Yield the rejects with file, line and the beginning of the line, by file and line."""
    by_file: dict[int, list[RejectedRow]] = {}
    for row in rows:
        by_file.setdefault(row.file, []).append(row)
    for file in files:
        reject_rows = sorted(by_file.get(file.number, ()), key=lambda row: row.row)
        if reject_rows:
            lines = _lines(
                file, {row.row - file.first_row: row.reason is RejectReason.MALFORMED for row in reject_rows}
            )
            yield from (_reject(file, row, lines) for row in reject_rows)


def _reject(source: ReadFile, row: RejectedRow, lines: Mapping[int, _Line]) -> Reject:
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
