"""A run as a comment of a pull request: the verdict, the facts, and a collapsed part for each policy."""

from __future__ import annotations

from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.result import RunResult
from replay.compare.summary import Cell, CellKey
from replay.report.render.document import (
    Align,
    Column,
    Document,
    Section,
    Table,
    Tone,
    inert,
    number,
    plural,
)
from replay.report.run.report import run_document
from replay.report.run.trust import MATCH
from replay.report.run.views import WORDS, by_policy, cells_with, direct, grouped, workload_label

MOST_ROWS = 25
_FACTS = ("Determined", MATCH, "Denied", "Newly mutated", "Predicted outcome", "Accepted")
_TONES = {OutcomeKind.NEWLY_DENIED: Tone.BAD, OutcomeKind.UNDETERMINED: Tone.PLAIN}
_Items = list[tuple[CellKey, Cell]]


def run_comment(result: RunResult) -> Document:
    """Return the comment: a section for each policy and outcome, those that deny most first."""
    document = run_document(result)
    sections = [
        _section(result, kind, group.label, [item for item in cells if group.label in item[0].policies])
        for kind in (OutcomeKind.NEWLY_DENIED, *MUTATIONS, OutcomeKind.UNDETERMINED)
        if (cells := direct(cells_with(result.summary, kind)))
        for group in grouped(cells, by_policy)
    ]
    facts = tuple(fact for fact in document.facts if fact.label in _FACTS)
    return Document(document.title, document.subtitle, document.verdict, document.tone, facts, tuple(sections))


def _section(result: RunResult, kind: OutcomeKind, policy: str, cells: _Items) -> Section:
    """Return the workloads and users that a policy affects, with its file and line and its most frequent message."""
    counts: dict[tuple[str, str], int] = {}
    for key, cell in cells:
        who = workload_label(key), key.user
        counts[who] = counts.get(who, 0) + cell.count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = tuple((inert(workload), inert(user), number(count)) for (workload, user), count in ordered[:MOST_ROWS])
    columns = Column("workload", Align.CODE), Column("user", Align.CODE), Column("requests", Align.NUMBER)
    table = Table(f"{kind}-{policy}", "", columns, rows, len(ordered))
    requests = plural(sum(counts.values()), "request")
    workloads = plural(len({workload for workload, _ in counts}), "workload")
    title = f"{inert(policy)}: {requests} of {workloads} {WORDS[kind]}"
    origin = result.origin(policy)
    place = f"{origin.file}:{origin.line}" if origin is not None else ""
    messages = result.summary.messages.get((kind, policy))
    common = max(messages.items(), key=lambda item: (item[1], item[0]))[0] if messages else ""
    lead = ": ".join(inert(part) for part in (place, common) if part)
    return Section(f"{kind}-{policy}", title, lead, (table,), _TONES.get(kind, Tone.WARN))
