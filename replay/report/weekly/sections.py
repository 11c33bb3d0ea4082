"""Sections of the weekly report: what is new or gone, the set in force, and what was skipped."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import NamedTuple

from replay.compare.weekly.figures import FileFidelity, Owner, Promotion, WeeklyResult
from replay.report.render.document import (
    Align,
    Block,
    Column,
    Section,
    Table,
    Tone,
    inert,
    minute,
    moment,
    number,
    plural,
    zone_name,
)

SAME = "as before"
_NODE = "system:node:"


def change(now: int, previous: int | None) -> str:
    """The trend of a number in words: the difference and, where it says something, the share; empty without an earlier one."""
    if previous is None:
        return ""
    if not previous:
        return "new" if now else SAME
    difference = now - previous
    if not difference:
        return SAME
    sign = "+" if difference > 0 else "\u2212"
    return f"{sign}{number(abs(difference))} ({sign}{100 * abs(difference) / previous:.0f} %)"


class OwnerDenials(NamedTuple):
    """New denials of one policy for one owner."""

    policy: str
    owner: str
    requests: int
    namespaces: tuple[str, ...]
    workloads: tuple[str, ...]
    users: tuple[str, ...]
    last: int


def talks(promotion: Promotion) -> list[OwnerDenials]:
    """The owners of a promotion, those with most requests first; where no label names one, who sends the requests."""
    groups: dict[tuple[str, str], list[Owner]] = {}
    for each in promotion.owners:
        groups.setdefault((each.owner, "" if each.owner else each.users[0]), []).append(each)
    owner_talks = [
        OwnerDenials(
            promotion.policy,
            owner,
            sum(each.requests for each in owners),
            tuple(dict.fromkeys(each.namespace for each in owners if each.namespace)),
            tuple(each.workload for each in owners),
            tuple(dict.fromkeys(user for each in owners for user in each.users)),
            max(each.last for each in owners),
        )
        for (owner, _), owners in groups.items()
    ]
    return sorted(owner_talks, key=lambda talk: (-talk.requests, talk.owner, talk.users))


def some(names: tuple[str, ...], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def newness(result: WeeklyResult, rows: int) -> Section | None:
    """First-seen and vanished denials, users and namespaces."""
    previous, now = result.previous, result.figures
    if previous is None:
        lead = "There is no earlier report to compare with. The next report is compared with the JSON file of this one (--out)."
        return Section("new", "What is new", lead, quiet=True)
    denials = [("denial", f"{d.policy}", _whom(d.user, d.namespace)) for d in sorted(now.denials - previous.denials)]
    gone = [("denial", f"{d.policy}", _whom(d.user, d.namespace)) for d in sorted(previous.denials - now.denials)]
    new_rows = [
        *denials,
        *(("namespace", name, "") for name in sorted(now.namespaces - previous.namespaces)),
        *(("user", name, "") for name in _people(now.users - previous.users)),
    ]
    gone_rows = [
        *gone,
        *(("namespace", name, "") for name in sorted(previous.namespaces - now.namespaces)),
        *(("user", name, "") for name in _people(previous.users - now.users)),
    ]
    blocks: tuple[Block, ...] = tuple(
        _names(name, caption, name_rows, rows)
        for name, caption, name_rows in (
            ("first-seen", "First seen in this period", new_rows),
            ("gone", "Seen in the earlier period, but not in this one", gone_rows),
        )
        if name_rows
    )
    lead = f"Compared with {moment(previous.period.start)} to {moment(previous.period.end)}, from {inert(result.compared_with)}."
    if not blocks:
        lead += " The denials, users and namespaces are the same."
    return Section("new", "What is new, what is gone", lead, blocks)


def _whom(user: str, namespace: str) -> str:
    return f"{user} in {namespace}" if namespace else user


def _people(names: Iterable[str]) -> list[str]:
    """Users, people first; nodes and controllers come and go."""
    return sorted(names, key=lambda name: (name.startswith("system:"), name.startswith(_NODE), name))


def _names(name: str, caption: str, name_rows: list[tuple[str, str, str]], rows: int) -> Table:
    columns = (Column("what"), Column("name", Align.CODE), Column("whom", Align.CODE))
    shown = tuple((what, inert(one), inert(whom)) for what, one, whom in name_rows[:rows])
    return Table(name, caption, columns, shown, len(name_rows))


def in_force(result: WeeklyResult, rows: int, zone: tzinfo) -> Section | None:
    """The sets' hashes, when the log shows the current one at work, and whether API servers seem to have different ones."""
    sets = [(role, each) for role, each in (("current", result.current), ("candidate", result.candidate)) if each]
    if not sets:
        return None
    hashes = tuple((role, plugin, hash_) for role, each in sets for plugin, hash_ in each.hashes if hash_)
    blocks: list[Block] = []
    if hashes:
        columns = (Column("set"), Column("plugin"), Column("hash", Align.CODE))
        blocks.append(Table("hashes", "Hashes in the metrics of the API servers", columns, hashes, len(hashes)))
    drifted = len(result.evidence) > 1 and len({bool(e.fidelity.disagreement_count) for e in result.evidence}) > 1
    if result.evidence:
        blocks.append(_evidence(result.evidence, rows, zone))
    if result.foreign:
        blocks.append(_foreign(result))
    lead, tone = _in_force_lead(result, zone, drifted=drifted)
    return Section("in-force", "The set in force", lead, tuple(blocks), tone)


def _in_force_lead(result: WeeklyResult, zone: tzinfo, *, drifted: bool) -> tuple[str, Tone]:
    first = min((each.first for each in result.evidence if each.first), default=0)
    last = max((each.last for each in result.evidence), default=0)
    if result.current is None:
        return "There is no baseline (--current), so the report cannot tell which set was in force.", Tone.PLAIN
    if not first:
        return (
            "The log records no decision of the baseline, so the report cannot tell whether it was in force.",
            Tone.WARN,
        )
    lead = f"The log records decisions of the baseline from {moment(first, zone)} to {moment(last, zone)}."
    if drifted:
        return f"{lead} Some files match it and others do not. The API servers may have different sets.", Tone.WARN
    if result.foreign:
        return (
            f"{lead} It also records static policies that the baseline does not have. Another set was in force, too.",
            Tone.WARN,
        )
    if result.fidelity.disagreement_count:
        return f"{lead} Some decisions differ from it. `replay verify` names the likely cause.", Tone.WARN
    return f"{lead} No decision points to another set.", Tone.PLAIN


def _evidence(evidence: tuple[FileFidelity, ...], rows: int, zone: tzinfo) -> Table:
    """File by file; where there are too many, those that differ from the set first."""
    notes = zone_name(max(each.last for each in evidence), zone)
    columns = (
        Column("file", Align.CODE),
        Column("same", Align.NUMBER),
        Column("different", Align.NUMBER),
        Column(f"first, {notes}", Align.SHORT),
        Column(f"last, {notes}", Align.SHORT),
    )
    ordered = (
        sorted(evidence, key=lambda each: not each.fidelity.disagreement_count) if len(evidence) > rows else evidence
    )
    shown = tuple(
        (
            inert(each.file),
            number(
                each.fidelity.denials.reproduced
                + each.fidelity.failures.reproduced
                + each.fidelity.annotations.reproduced
            ),
            number(each.fidelity.disagreement_count),
            minute(each.first, zone) if each.first else "never",
            minute(each.last, zone) if each.last else "never",
        )
        for each in ordered[:rows]
    )
    return Table("evidence", "Decisions of the baseline, by file of the log", columns, shown, len(evidence))


def _foreign(result: WeeklyResult) -> Table:
    shown = tuple((inert(name), number(count)) for name, count in sorted(result.foreign.items()))
    columns = (Column("policy", Align.CODE), Column("requests", Align.NUMBER))
    return Table("foreign", "Static policies in the log that the baseline does not have", columns, shown, len(shown))


def left_out(result: WeeklyResult) -> Section | None:
    """Unusable lines, and requests that failed before validation."""
    lines = [(inert(reason), number(count)) for reason, count in sorted(result.rejects.items())]
    lines += [
        (f"failed before: {inert(reason)}", number(count)) for reason, count in sorted(result.not_reached.items())
    ]
    if not lines:
        return None
    total = sum(result.not_reached.values())
    table = Table("reading", "", (Column("what"), Column("number", Align.NUMBER)), tuple(lines), len(lines))
    lead = f"{plural(total, 'request')} failed before admission evaluated policies." if total else ""
    return Section("reading", "Skipped", lead, (table,), quiet=True)
