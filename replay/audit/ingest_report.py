"""Counts of an ingest, for the user."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from replay.audit.format.recognise import beginning
from replay.audit.format.table import products
from replay.audit.reject import EXPLANATIONS, RejectReason, Rejects
from replay.audit.segment import Segment
from replay.audit.source import LogFile


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
