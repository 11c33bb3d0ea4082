"""Accepted findings in a report: how many there are, which no longer occur, which have expired."""

from __future__ import annotations

from collections.abc import Iterator

from replay.compare.accepted import AcceptedEntry, AcceptedFacts
from replay.json import JSON
from replay.report.render.document import Align, Column, Fact, Section, Table, Tone, inert, number, plural


def accepted_facts(accepted: AcceptedFacts) -> Iterator[Fact]:
    """Yield the number of accepted denials; nothing where no denial was accepted."""
    if accepted.entries:
        notes = [plural(len(each), "entry", "entries") + f" {word}" for each, word in _groups(accepted) if each]
        tone = Tone.WARN if accepted.expired else Tone.PLAIN
        yield Fact("Accepted", plural(accepted.requests, "denial"), "; ".join(notes), tone)


def _groups(accepted: AcceptedFacts) -> tuple[tuple[tuple[AcceptedEntry, ...], str], ...]:
    return (accepted.expired, "expired and counted again"), (accepted.gone, "no longer needed")


def accepted_section(accepted: AcceptedFacts, rows: int) -> Section | None:
    """Return all entries: expired ones first, then those that are no longer needed."""
    if not accepted.entries:
        return None
    listed = sorted(accepted.entries, key=lambda each: (_rank(each), each.entry.line))
    columns = (
        Column("what"),
        Column("policy", Align.CODE),
        Column("namespace", Align.CODE),
        Column("workload", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("until"),
        Column("reason"),
    )
    shown = tuple(_row(each) for each in listed[:rows])
    lead = f"{inert(accepted.path)} lists these denials as intended. No other number in this report counts them."
    table = Table("accepted", "", columns, shown, len(listed))
    return Section("accepted", "Accepted", lead, (table,), quiet=not accepted.expired)


def _rank(each: AcceptedEntry) -> int:
    return 0 if each.expired and each.requests else 2 if each.requests else 1


def _row(each: AcceptedEntry) -> tuple[str, ...]:
    entry = each.entry
    word = ("expired: counted again", "no longer needed", "accepted")[_rank(each)]
    until = entry.expires.isoformat() if entry.expires is not None else "no end"
    places = map(inert, (entry.policy, entry.namespace, entry.workload))
    return (word, *places, number(each.requests), until, inert(entry.reason))


def accepted_json(accepted: AcceptedFacts) -> dict[str, JSON]:
    """The same as JSON."""
    return {
        "requests": accepted.requests,
        "entries": [
            {
                "policy": each.entry.policy,
                "namespace": each.entry.namespace,
                "workload": each.entry.workload,
                "reason": each.entry.reason,
                "expires": each.entry.expires.isoformat() if each.entry.expires is not None else None,
                "line": each.entry.line,
                "requests": each.requests,
                "expired": each.expired,
            }
            for each in accepted.entries
        ],
    }
