"""Denied requests in the report of `replay run`: direct findings by policy, workload, user, namespace and resource.

Accepted denials are counted separately, and so are requests that passed while a policy was not in the API.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.compare.accepted import AcceptedEntry, AcceptedFacts
from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.json import JSON
from replay.kube.admissionregistration import GROUP
from replay.report.render.document import (
    Align,
    Block,
    Column,
    Fact,
    Section,
    Table,
    Tone,
    few,
    inert,
    minute,
    number,
    plural,
    policy_anchors,
    without_empty,
)
from replay.report.run.views import (
    LOCKED_OUT,
    CellItems,
    Group,
    by_kind,
    by_namespace,
    by_policy,
    by_user,
    by_workload,
    by_workspace,
    cells_with,
    common_message,
    counted,
    direct,
    grouped,
    lockout,
)

ALL = "all"


def lockouts_section(result: RunResult, rows: int) -> Section | None:
    """Return the direct denials of the cluster's own components, or None if there are none."""
    cells = [item for item in cells_with(result.summary, OutcomeKind.NEWLY_DENIED) if lockout(item[0])]
    if not cells:
        return None
    groups = grouped(cells, lambda key: (f"{lockout(key)}\0{key.user}\0{key.resource}",))
    groups.sort(key=lambda group: (LOCKED_OUT.index(group.label.partition("\0")[0]), -group.requests, group.label))
    columns = (
        Column("who"),
        Column("user", Align.CODE),
        Column("resource", Align.CODE),
        Column("direct", Align.NUMBER),
        Column("policies", Align.CODE, optional=True),
    )
    shown = tuple(
        (*map(inert, group.label.split("\0")), number(group.requests), _names(group.policies))
        for group in groups[:rows]
    )
    table = Table("lockouts", "", columns, shown, len(groups), foot=_foot(columns, cells), rest=_rest(groups[rows:]))
    lead = "The control plane, a node or a controller would be denied directly. The cluster may be unable to undo the change."
    return Section("lockouts-first", "Lockouts", lead, (table,), Tone.BAD)


def _names(names: set[str]) -> str:
    return inert(", ".join(sorted(names)))


def _foot(columns: tuple[Column, ...], cells: CellItems) -> tuple[str, ...]:
    """Return the totals of all rows, if each request is in one row."""
    count, follows = counted(cells)
    totals = {"direct": number(count), "consequences": number(follows)}
    return (ALL, *(totals.get(column.title, "") for column in columns[1:]))


def _rest(groups: list[Group]) -> str:
    """Return the omitted rows, if each request is in one row."""
    count, follows = sum(group.requests for group in groups), sum(group.consequences for group in groups)
    return f"{plural(count, 'request')}" + (f", {number(follows)} consequences" if follows else "")


def denied_section(result: RunResult, rows: int) -> Section | None:
    """Return new denials by policy, and by kcp workspace, or None if there are none."""
    cells = cells_with(result.summary, OutcomeKind.NEWLY_DENIED)
    if not cells:
        return None
    consumers = grouped(cells, by_workspace)
    blocks: tuple[Block, ...] = (_policies(result, cells, rows),)
    if consumers:  # a provider asks first whom of them its change would deny
        blocks = (_table("workspaces", "consumer", consumers, cells, rows), *blocks)
    return Section("newly-denied", "Denied requests", _lead(result, cells), blocks, Tone.BAD)


def views_section(result: RunResult, rows: int) -> Section | None:
    """Return denied requests by workload, user, namespace and resource, or None if nothing is denied.

    Each table has each request in one row.
    """
    cells = cells_with(result.summary, OutcomeKind.NEWLY_DENIED)
    if not cells:
        return None
    blocks: tuple[Block, ...] = (
        _workloads(cells, rows),
        _table("users", "user", grouped(cells, by_user), cells, rows),
        _table("namespaces", "namespace", grouped(cells, by_namespace), cells, rows),
        _table("kinds", "resource", grouped(cells, by_kind), cells, rows),
    )
    return Section("views", "Denied requests by workload, user, namespace and resource", "", blocks, Tone.BAD)


def _lead(result: RunResult, cells: CellItems) -> str:
    count, follows = counted(cells)
    lead = f"{plural(count, 'request')} would be denied directly."
    several = sum(cell.count for key, cell in direct(cells) if len(key.policies) > 1)
    if several:
        lead += f" {number(several)} of these match more than one policy and appear once per policy."
    if spared := result.summary.spared:
        lead += f" {number(spared)} would still succeed, because an earlier mutation changes their object."
    if follows:
        lead += f" Another {number(follows)} are denied only as a consequence (for example, an update of an object whose creation is denied)."
    return lead


def _policies(result: RunResult, cells: CellItems, rows: int) -> Table:
    groups = grouped(cells, by_policy)
    columns = (
        Column("policy", Align.CODE),
        Column("direct", Align.NUMBER),
        Column("sole", Align.NUMBER),
        Column("consequences", Align.NUMBER),
        Column("most frequent message"),
        Column("workloads", Align.NUMBER, optional=True),
        Column("users", Align.NUMBER, optional=True),
        Column("where", Align.ID, optional=True),
    )
    shown = tuple(
        (
            inert(group.label),
            *map(number, (group.requests, group.sole, group.consequences)),
            inert(common_message(result, group.label)),
            number(len(group.workloads)),
            number(len(group.users)),
            where(result, group.label),
        )
        for group in groups[:rows]
    )
    anchors = policy_anchors([inert(group.label) for group in groups[:rows]])
    table = Table("policies", "By policy", columns, shown, len(groups), foot=_foot(columns, cells), anchors=anchors)
    return without_empty(table)


def where(result: RunResult, policy: str) -> str:
    """Return the file and line of a policy, or "" for a policy of the cluster."""
    origin = result.origin(policy)
    return inert(f"{origin.file}:{origin.line}") if origin is not None else ""


def _workloads(cells: CellItems, rows: int) -> Table:
    """Return the owning workloads, with their owners and the policies that deny them."""
    groups = grouped(cells, by_workload)
    columns = (
        Column("owning workload", Align.CODE),
        Column("owner"),
        Column("direct", Align.NUMBER),
        Column("consequences", Align.NUMBER),
        Column("last seen, UTC", Align.SHORT),
        Column("policies", Align.CODE, optional=True),
        Column("users", Align.CODE, optional=True),
    )
    shown = tuple(
        (
            inert(group.label),
            _names(group.owners),
            number(group.requests),
            number(group.consequences),
            minute(group.last) if group.requests else "",
            _names(group.policies),
            few(sorted(group.users)),
        )
        for group in groups[:rows]
    )
    foot, rest = _foot(columns, cells), _rest(groups[rows:])
    return without_empty(Table("workloads", "By owning workload", columns, shown, len(groups), foot=foot, rest=rest))


_COUNTS = ("policies", "workloads", "users", "namespaces")


def _table(name: str, label: str, groups: list[Group], cells: CellItems, rows: int) -> Table:
    """Return a table of groups with their numbers of requests, policies, workloads, users and namespaces."""
    counts = tuple(count for count in _COUNTS if count != name)
    columns = (
        Column(label, Align.CODE),
        Column("direct", Align.NUMBER),
        Column("consequences", Align.NUMBER),
        *(Column(count, Align.NUMBER, optional=count == "namespaces") for count in counts),
        Column("last seen, UTC", Align.SHORT, optional=True),
    )
    shown = tuple(
        (
            inert(group.label),
            number(group.requests),
            number(group.consequences),
            *(number(len(getattr(group, count))) for count in counts),
            minute(group.last) if group.requests else "",
        )
        for group in groups[:rows]
    )
    foot, rest = _foot(columns, cells), _rest(groups[rows:])
    return Table(name, f"By {label}", columns, shown, len(groups), foot=foot, rest=rest)


def examples_section(result: RunResult, rows: int) -> Section | None:
    """Return the first direct finding of each policy, or None if there is none."""
    groups = grouped(direct(cells_with(result.summary, OutcomeKind.NEWLY_DENIED)), by_policy)
    if not groups:
        return None
    columns = (
        Column("policy", Align.CODE),
        Column("request"),
        Column("user", Align.CODE),
        Column("message"),
        Column("audit id", Align.ID, optional=True),
    )
    shown = []
    for group in groups[:rows]:
        example, key = group.examples[0]
        message = dict(zip(key.policies, example.messages, strict=False)).get(group.label, "")
        at = f"{key.namespace}/{example.name}" if key.namespace else example.name
        about = f"{example.operation} {key.resource} {at}"
        shown.append(tuple(map(inert, (group.label, about, key.user, message, example.audit_id))))
    lead = "The first request that each policy denies. `replay explain AUDIT-ID` shows every step of the decision."
    table = Table("examples-table", "", columns, tuple(shown), len(groups))
    return Section("examples", "Examples", lead, (table,), quiet=True)


_MOST_NAMES = 2


def bootstrap_gap_fact(result: RunResult) -> Fact | None:
    """Return the number of requests that passed before a moved policy was in the API, or while it was absent.

    None if no policy moved.
    """
    if not result.moved:
        return None
    groups = _gap_groups(result)
    if not groups:
        return Fact("Bootstrap gap", "none", "the moved policies deny no request that passed", Tone.GOOD)
    named = ", ".join(f"{inert(each.label)} ({each.requests:,})" for each in groups[:_MOST_NAMES])
    more = f" and {len(groups) - _MOST_NAMES} more" if len(groups) > _MOST_NAMES else ""
    requests = plural(sum(each.requests for each in groups), "request")
    return Fact("Bootstrap gap", requests, f"passed while the policy was not in the API: {named}{more}", Tone.WARN)


def bootstrap_gap_json(result: RunResult) -> list[dict[str, Any]]:
    """Return these requests as plain JSON."""
    return [
        {
            "policy": group.label,
            "requests": group.requests,
            "examples": [example.audit_id for example, _ in group.examples],
        }
        for group in _gap_groups(result)
    ]


def _gap_groups(result: RunResult) -> list[Group]:
    """Return the direct denials by policies that moved unchanged. Their API form would have denied them too.

    Requests for policies and webhook configurations are left out, because only static policies see them.
    """
    denied = direct(cells_with(result.summary, OutcomeKind.NEWLY_DENIED))
    seen = [(key, cell) for key, cell in denied if not key.resource.endswith(f".{GROUP}")]
    return [group for group in grouped(seen, by_policy) if group.label in result.moved]


def accepted_facts(accepted: AcceptedFacts) -> Iterator[Fact]:
    """Yield the number of accepted denials, if there are entries."""
    if accepted.entries:
        notes = [plural(len(each), "entry", "entries") + f" {word}" for each, word in _stale_entries(accepted) if each]
        tone = Tone.WARN if accepted.expired else Tone.PLAIN
        yield Fact("Accepted", plural(accepted.requests, "denial"), "; ".join(notes), tone)


def _stale_entries(accepted: AcceptedFacts) -> tuple[tuple[tuple[AcceptedEntry, ...], str], ...]:
    return (accepted.expired, "expired and counted again"), (accepted.gone, "no longer needed")


def accepted_section(accepted: AcceptedFacts, rows: int) -> Section | None:
    """Return all entries: expired ones first, then those that are no longer needed. None without entries."""
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
    """Return the accepted denials as JSON."""
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
