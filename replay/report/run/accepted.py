"""What a report says of accepted findings: how many there are, which no longer occur, which have expired."""

from __future__ import annotations

from collections.abc import Iterator

from replay.compare.accepted import AcceptedEntry, AcceptedFacts
from replay.json import JSON
from replay.report.render.document import Align, Column, Fact, Section, Table, Tone, inert, number, plural


def accepted_facts(accepted: AcceptedFacts) -> Iterator[Fact]:
    """How many requests are denied as is meant; nothing where nothing was accepted."""
    if accepted.entries:
        notes = [plural(len(each), "entry", "entries") + f" {word}" for each, word in _groups(accepted) if each]
        tone = Tone.WARN if accepted.expired else Tone.PLAIN
        yield Fact("Accepted", plural(accepted.requests, "denial"), "; ".join(notes), tone)


def _groups(accepted: AcceptedFacts) -> tuple[tuple[tuple[AcceptedEntry, ...], str], ...]:
    return (accepted.expired, "expired, and alarm again"), (accepted.gone, "no longer occur")


def accepted_section(accepted: AcceptedFacts, rows: int) -> Section | None:
    """Every entry: those that have expired first, then those that no longer occur."""
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
    lead = f"Denials that {inert(accepted.path)} says are meant: counted here alone."
    table = Table("accepted", "", columns, shown, len(listed))
    return Section("accepted", "Accepted", lead, (table,), quiet=not accepted.expired)


def _rank(each: AcceptedEntry) -> int:
    return 0 if each.expired and each.requests else 2 if each.requests else 1


def _row(each: AcceptedEntry) -> tuple[str, ...]:
    entry = each.entry
    word = ("expired: alarms again", "no longer occurs", "accepted")[_rank(each)]
    until = entry.expires.isoformat() if entry.expires is not None else "ever"
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
