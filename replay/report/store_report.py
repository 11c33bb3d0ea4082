"""Output of `replay ingest` and `replay store info`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from replay.audit.catalog import SegmentEntry
from replay.audit.reject import EXPLANATIONS, RejectReason
from replay.audit.segment import IngestReport
from replay.audit.store import StoreInfo
from replay.report.render.document import (
    MICROSECONDS,
    Align,
    Column,
    Document,
    Fact,
    Section,
    Table,
    Tone,
    inert,
    moment,
    number,
    plural,
    size,
    span,
)

_COLUMNS = (
    Column("files"),
    Column("requests", Align.NUMBER),
    Column("last request"),
)
_NAMED_FILES = 3


def ingest_document(report: IngestReport, store: str, requests: int) -> Document:
    """Return the counts of an ingest, and the store's number of requests."""
    known_files = f"{plural(report.known_files, 'file')} were known" if report.known_files != 1 else "1 file was known"
    news = f"Read {plural(report.files, 'file')}" if report.files else "Nothing new"
    superseded = report.superseded
    facts = [
        Fact("Read", plural(report.events, "event"), f"{plural(report.lines, 'line')}, {size(report.bytes)}"),
        Fact("Requests", number(report.requests), f"{plural(superseded, 'earlier stage')} left out"),
    ]
    return Document(
        title="Ingest",
        subtitle=inert(store),
        verdict=f"{news}; {known_files}. The store holds {plural(requests, 'request')}.",
        tone=Tone.WARN if report.rejects.total else Tone.GOOD,
        facts=(*facts, *_reject_facts(report.rejects.counts)),
    )


def ingest_json(report: IngestReport, store: str, requests: int) -> dict[str, Any]:
    """Return the counts as JSON."""
    return {
        "store": {"directory": store, "requests": requests},
        "files": report.files,
        "knownFiles": report.known_files,
        "bytes": report.bytes,
        "lines": report.lines,
        "events": report.events,
        "requests": report.requests,
        "superseded": report.superseded,
        "rejects": {str(reason): count for reason, count in sorted(report.rejects.counts.items())},
    }


def _reject_facts(counts: Mapping[Any, int]) -> list[Fact]:
    """Return the number of unused lines by reason, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return [Fact("Not used", plural(n, "line"), EXPLANATIONS[RejectReason(reason)], Tone.WARN) for reason, n in ordered]


def info_document(info: StoreInfo) -> Document:
    """Return facts about a store."""
    length = info.last - info.first
    begins = Fact("From", moment(info.first), span(length) if length else "") if info.first else Fact("From", "nothing")
    shown = [
        Fact("Requests", number(info.requests), f"in {plural(info.parts, 'part')}, schema {info.schema}"),
        begins,
        Fact("On disk", size(info.octets)),
        *_reject_facts(info.rejects),
    ]
    rows = tuple(
        (_files(segment), number(segment.requests - segment.replaced), moment(segment.last))
        for segment in info.segments
    )
    return Document(
        title="Store",
        subtitle=inert(info.directory),
        verdict=f"{plural(info.requests, 'request')} of {plural(len(rows), 'ingest')}.",
        tone=Tone.PLAIN,
        facts=tuple(shown),
        sections=(Section("ingests", "Ingests", "", (Table("ingests", "", _COLUMNS, rows),)),) if rows else (),
    )


def info_json(info: StoreInfo) -> dict[str, Any]:
    """Return facts about a store as JSON. Times are RFC 3339, and null in an empty store."""
    return {
        "directory": info.directory,
        "schema": info.schema,
        "requests": info.requests,
        "parts": info.parts,
        "bytes": info.octets,
        "first": _time(info.first),
        "last": _time(info.last),
        "rejects": dict(sorted(info.rejects.items())),
        "ingests": [_segment_json(segment) for segment in info.segments],
    }


def _segment_json(segment: SegmentEntry) -> dict[str, Any]:
    return {
        "name": segment.name,
        "events": segment.events,
        "requests": segment.requests - segment.replaced,
        "last": _time(segment.last),
        "files": [
            {"name": file.name, "sha256": file.digest, "bytes": file.size, "lines": file.lines}
            for file in segment.files
        ],
    }


def _files(segment: SegmentEntry) -> str:
    """Return the names of the first files of an ingest, and the number of the others."""
    names = [inert(file.name) for file in segment.files[:_NAMED_FILES]]
    more = len(segment.files) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _time(microseconds: int) -> str | None:
    if not microseconds:
        return None
    at = datetime.fromtimestamp(microseconds // MICROSECONDS, tz=UTC).replace(microsecond=microseconds % MICROSECONDS)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
