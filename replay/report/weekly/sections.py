"""Sections of the weekly report: what is new or gone, the set in force, readiness, refused requests, and what was skipped.

Readiness for Pod Security names the blockers of the next level of each namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from typing import Any, NamedTuple

from replay.compare.readiness import NamespaceReadiness
from replay.compare.weekly import FileFidelity, Owner, Promotion, Refusals, RefusedRequests, WeeklyResult
from replay.json import JSON
from replay.report.render.document import (
    Align,
    Block,
    Column,
    Listing,
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
    """Return the trend of a number in words: the difference and the percentage. It is empty without an earlier number."""
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
    """Return the owners of a promotion, those with most requests first. Without an owner label, the users stand for them."""
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
    """Return the first few names, and the number of others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def newness(result: WeeklyResult, rows: int) -> Section | None:
    """Return the section with new and vanished denials, users and namespaces."""
    previous, now = result.previous, result.figures
    if previous is None:
        lead = "There is no earlier report to compare with. The next report is compared with the JSON file of this one (--out)."
        return Section("new", "What is new", lead, quiet=True)
    denials = [
        ("denial", f"{d.policy}", _user_text(d.user, d.namespace)) for d in sorted(now.denials - previous.denials)
    ]
    gone = [("denial", f"{d.policy}", _user_text(d.user, d.namespace)) for d in sorted(previous.denials - now.denials)]
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


def _user_text(user: str, namespace: str) -> str:
    return f"{user} in {namespace}" if namespace else user


def _people(names: Iterable[str]) -> list[str]:
    """Return the users with people first, because nodes and controllers come and go."""
    return sorted(names, key=lambda name: (name.startswith("system:"), name.startswith(_NODE), name))


def _names(name: str, caption: str, name_rows: list[tuple[str, str, str]], rows: int) -> Table:
    columns = (Column("what"), Column("name", Align.CODE), Column("whom", Align.CODE))
    shown = tuple((what, inert(one), inert(whom)) for what, one, whom in name_rows[:rows])
    return Table(name, caption, columns, shown, len(name_rows))


def in_force(result: WeeklyResult, rows: int, zone: tzinfo) -> Section | None:
    """Return the section about the set in force, or None without a set.

    It has the hashes of the sets, when the log shows decisions of the baseline, and whether API servers seem to have
    different sets.
    """
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
    """Return the table of log files. If there are too many, those that differ from the set come first."""
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
    """Return the section with unusable lines and requests that failed before validation, or None."""
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


ReadinessByNamespace = Mapping[str, NamespaceReadiness]
_COMPUTE = ("cpu", "memory")


def readiness_sections(readiness: ReadinessByNamespace, rows: int) -> Iterator[Section]:
    """Yield the sections about Pod Security levels, their obstacles, and the bounds of requests and limits."""
    if not readiness:
        return
    yield _levels(readiness, rows)
    if any(each.obstacles.get(each.next_level) for each in readiness.values()):
        yield _obstacles(readiness, rows)
    yield _bounds(readiness, rows)


def _levels(readiness: ReadinessByNamespace, rows: int) -> Section:
    columns = (
        Column("namespace", Align.CODE),
        Column("strictest safe level", Align.SHORT),
        Column("pods", Align.NUMBER),
        Column("denied by the next level", Align.SHORT),
    )
    shown = []
    for namespace, each in sorted(readiness.items()):
        denied = f"{each.next_level}: {number(each.denied[each.next_level])}" if each.next_level else ""
        denied += f", {number(each.unknown)} undetermined" if each.unknown else ""
        shown.append((inert(namespace), each.level, number(each.pods), denied))
    lead = "For each namespace: the strictest Pod Security level that would have admitted every requested pod."
    table = Table("readiness", "", columns, tuple(shown[:rows]), len(shown))
    return Section("readiness", "Which Pod Security level?", lead, (table,), Tone.PLAIN)


def _obstacles(readiness: ReadinessByNamespace, rows: int) -> Section:
    columns = (
        Column("namespace", Align.CODE),
        Column("level", Align.SHORT),
        Column("owning workload"),
        Column("reason"),
        Column("pods", Align.NUMBER),
    )
    shown = [
        (inert(namespace), each.next_level, inert(owner), inert(f"{reason} ({where})" if where else reason), number(n))
        for namespace, each in sorted(readiness.items())
        for (owner, reason, where), n in each.obstacles.get(each.next_level, {}).items()
    ]
    shown.sort(key=lambda row: (row[0], -int(row[4].replace(",", "")), *row[2:4]))
    lead = "For each workload: why the next stricter level would deny its pods, with the fields."
    return Section(
        "obstacles",
        "Why the next level would deny pods",
        lead,
        (Table("obstacles", "", columns, tuple(shown[:rows]), len(shown)),),
    )


def _bounds(readiness: ReadinessByNamespace, rows: int) -> Section:
    columns = (Column("namespace", Align.CODE), Column("LimitRange, container max"), Column("ResourceQuota, hard"))
    shown = [
        (inert(namespace), inert(_text(limit_range(each))), inert(_text(quota(each))))
        for namespace, each in sorted(readiness.items())
    ]
    lead = (
        "The lowest bounds that would have admitted everything: the largest limit of a container, and the largest sum of requests at one "
        "time, of pods that the log shows being created. Leave room above them."
    )
    table = Table("bounds", "", columns, tuple(shown[:rows]), len(shown))
    return Section("bounds", "LimitRange and ResourceQuota that would have been enough", lead, (table,))


def limit_range(namespace: NamespaceReadiness) -> dict[str, str]:
    """Return `max` of a LimitRange for containers."""
    return {name: str(value) for name, value in sorted(namespace.most.get("limits", {}).items()) if name in _COMPUTE}


def quota(namespace: NamespaceReadiness) -> dict[str, str]:
    """Return `hard` of a ResourceQuota."""
    return {name: str(value) for name, value in sorted(namespace.peak().items())}


def _text(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items()) or "no requests or limits"


def readiness_value(readiness: ReadinessByNamespace) -> list[dict[str, Any]]:
    """Return the readiness as JSON."""
    return [
        {
            "namespace": namespace,
            "level": each.level,
            "pods": each.pods,
            "notKnown": each.unknown,
            "wouldDeny": dict(each.denied),
            "obstacles": [
                {"level": level, "workload": owner, "reason": reason, "where": where, "pods": n}
                for level, obstacles in sorted(each.obstacles.items())
                for (owner, reason, where), n in sorted(obstacles.items())
            ],
            "limitRangeMax": limit_range(each),
            "quotaHard": quota(each),
        }
        for namespace, each in sorted(readiness.items())
    ]


def refusal_sections(refusals: Refusals, rows: int) -> Iterator[Section]:
    """Yield the sections about refusals and unused permissions, if there are any."""
    blocks: list[Block] = []
    if refusals.now:
        blocks.append(
            _table("forbidden", "", refusals, sorted(refusals.now, key=lambda each: (-refusals.now[each], each)), rows)
        )
    gone = refusals.no_longer
    if gone:
        blocks.append(
            _table("no-longer-forbidden", "No longer", refusals, sorted(gone, key=lambda e: (-gone[e], e)), rows)
        )
    if blocks:
        lead = (
            f"{plural(refusals.now.total(), 'request')} of {plural(len({each.user for each in refusals.now}), 'user')}."
        )
        yield Section("forbidden", "Requests that authorization denied", lead, tuple(blocks), quiet=True)
    if refusals.unused:
        shown = [inert(each) for each in refusals.unused[:rows]]
        rest = len(refusals.unused) - len(shown)
        text = "\n".join([*shown, *([f"… and {number(rest)} more"] if rest else [])])
        lead = (
            f"{plural(len(refusals.unused), 'binding')} allowed no request of the log. A permission that is needed only now and then "
            "may be among them. `--format rbac --user NAME` writes a Role for what a user did."
        )
        yield Section("unused-bindings", "What could be revoked", lead, (Listing("", text),), quiet=True)


def _table(name: str, caption: str, refusals: Refusals, ordered: list[RefusedRequests], rows: int) -> Table:
    columns = (
        Column("user", Align.CODE),
        Column("request", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("before", Align.NUMBER),
    )
    shown = tuple(
        (
            inert(each.user),
            inert(f"{each.verb} {each.target}"),
            number(refusals.now[each]),
            "" if refusals.earlier is None else number(refusals.earlier[each]) if each in refusals.earlier else "new",
        )
        for each in ordered[:rows]
    )
    return Table(name, caption, columns, shown, len(ordered))


def refusals_json(refusals: Refusals) -> JSON:
    """Return every refusal with its earlier count, which is null without an earlier period."""
    keys = sorted({*refusals.now, *refusals.no_longer})
    return {
        "refused": [
            {
                **each._asdict(),
                "requests": refusals.now[each],
                "before": None if refusals.earlier is None else refusals.earlier[each],
            }
            for each in keys
        ],
        "unusedBindings": list(refusals.unused),
    }
