"""Lines of an audit log that are not used, with the reason. They are counted and shown, never silently lost."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from replay.kube.redact import redacted_line

EXAMPLES = 3
"""Number of rejects for each reason that are shown without `--rejects FILE`."""


class RejectReason(StrEnum):
    """Reason why a line is not used. The value is the text for the operator."""

    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    NOT_AN_EVENT = "not an event"
    ANOTHER_API_VERSION = "another apiVersion"
    INCOMPLETE = "incomplete"
    DUPLICATE = "duplicate"
    CONFLICTING = "conflicting"
    DAMAGED = "damaged"
    TOO_LONG = "too long"
    IMPLAUSIBLE = "implausible time"
    SENT_ON = "sent on"


EXPLANATIONS = {
    RejectReason.MALFORMED: "the line is not one JSON object",
    RejectReason.TRUNCATED: "the last line ends before its JSON does",
    RejectReason.NOT_AN_EVENT: "the kind is not Event or EventList",
    RejectReason.ANOTHER_API_VERSION: "only audit.k8s.io/v1 is read",
    RejectReason.INCOMPLETE: "auditID, stage, verb or timestamp is missing or not usable",
    RejectReason.DUPLICATE: "the same auditID and stage were read before",
    RejectReason.CONFLICTING: "another event has the same auditID and stage",
    RejectReason.DAMAGED: "the file cannot be read or decompressed to its end, or is not what was written",
    RejectReason.TOO_LONG: "the line is longer than 256 MiB",
    RejectReason.IMPLAUSIBLE: "the time is not a time of this log: before 2017, after 2100, or more than a year from nearly all others",
    RejectReason.SENT_ON: "a proxy of kcp logged it, and the shard that decided it logged it too",
}


class Reject(NamedTuple):
    """One unused line. `line` is 0 for the whole file. `text` is the beginning of the line."""

    file: str
    line: int
    reason: RejectReason
    audit_id: str
    text: str


class Rejects(Struct):
    """Number of unused lines by reason, with the first few of each."""

    counts: Counter[RejectReason] = field(default_factory=Counter)
    examples: dict[RejectReason, list[Reject]] = field(default_factory=dict)

    def add(self, rejects: Iterable[Reject]) -> None:
        """Count rejects, in order, and keep the first of each reason."""
        for reject in rejects:
            self.counts[reject.reason] += 1
            examples = self.examples.setdefault(reject.reason, [])
            if len(examples) < EXAMPLES:
                examples.append(reject)

    def __add__(self, later: Rejects) -> Rejects:
        """Add the rejects of a later ingest."""
        examples = {
            reason: [*self.examples.get(reason, ()), *later.examples.get(reason, ())][:EXAMPLES]
            for reason in (*self.examples, *later.examples)
        }
        return Rejects(self.counts + later.counts, examples)

    @property
    def total(self) -> int:
        """Number of all rejects."""
        return self.counts.total()


def write_rejects(rejects: Iterable[Reject], path: Path, *, redact: bool = True) -> None:
    """Write rejects to a file, or to standard output for `-`.

    The columns are file and line, reason, audit id and the beginning of the line, separated by tabs.
    """
    with nullcontext(sys.stdout) if str(path) == "-" else path.open("w", encoding="utf-8") as file:
        for reject in rejects:
            text = " ".join((redacted_line(reject.text) if redact else reject.text).split())
            file.write(f"{reject.file}:{reject.line}\t{reject.reason}\t{reject.audit_id}\t{text}\n")
