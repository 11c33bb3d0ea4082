"""What a run report says about newly denied requests: root findings, by what differs; what follows is one column."""

from __future__ import annotations

from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.report.render.document import (
    Align,
    Block,
    Column,
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
    counted,
    grouped,
    lockout,
    roots,
)

ALL = "all"


def lockouts_section(result: RunResult, rows: int) -> Section | None:
    """The requests of components of the cluster that would be refused although nothing else was."""
    cells = [item for item in cells_with(result.summary, OutcomeKind.NEWLY_DENIED) if lockout(item[0])]
    if not cells:
        return None
    groups = grouped(cells, lambda key: (f"{lockout(key)}\0{key.user}\0{key.resource}",))
    groups.sort(key=lambda group: (LOCKED_OUT.index(group.label.partition("\0")[0]), -group.requests, group.label))
    columns = (
        Column("who"),
        Column("user", Align.CODE),
        Column("resource", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("policies", Align.CODE, optional=True),
    )
    shown = tuple(
        (*map(inert, group.label.split("\0")), number(group.requests), _names(group.policies))
        for group in groups[:rows]
    )
    table = Table("lockouts", "", columns, shown, len(groups), foot=_foot(columns, cells), rest=_rest(groups[rows:]))
    lead = "Requests of the control plane, of nodes and of controllers that would be denied although nothing else was."
    return Section("lockouts-first", "Lockouts first", lead, (table,), Tone.BAD)


def _names(names: set[str]) -> str:
    return inert(", ".join(sorted(names)))


def _foot(columns: tuple[Column, ...], cells: CellItems) -> tuple[str, ...]:
    """What all rows are together, where a request stands in one row."""
    count, follows = counted(cells)
    totals = {"requests": number(count), "follow": number(follows)}
    return (ALL, *(totals.get(column.title, "") for column in columns[1:]))


def _rest(groups: list[Group]) -> str:
    """The rows that are left out, where a request stands in one row."""
    count, follows = sum(group.requests for group in groups), sum(group.follows for group in groups)
    return f"{plural(count, 'request')}" + (f", {number(follows)} follow" if follows else "")


def denied_section(result: RunResult, rows: int) -> Section | None:
    """What is newly denied, by policy, and by the workspaces of kcp that it is denied to; None where nothing is."""
    cells = cells_with(result.summary, OutcomeKind.NEWLY_DENIED)
    if not cells:
        return None
    consumers = grouped(cells, by_workspace)
    blocks: tuple[Block, ...] = (_policies(result, cells, rows),)
    if consumers:  # a provider asks first whom of them its change would deny
        blocks = (_table("workspaces", "consumer", consumers, cells, rows), *blocks)
    return Section("newly-denied", "Newly denied", _lead(result, cells), blocks, Tone.BAD)


def views_section(result: RunResult, rows: int) -> Section | None:
    """What is newly denied by all but policies: each request stands in one row of each table; None where nothing is."""
    cells = cells_with(result.summary, OutcomeKind.NEWLY_DENIED)
    if not cells:
        return None
    blocks: tuple[Block, ...] = (
        _workloads(cells, rows),
        _table("users", "user", grouped(cells, by_user), cells, rows),
        _table("namespaces", "namespace", grouped(cells, by_namespace), cells, rows),
        _table("kinds", "resource", grouped(cells, by_kind), cells, rows),
    )
    return Section("views", "Newly denied, by workload, user, namespace and resource", "", blocks, Tone.BAD)


def _lead(result: RunResult, cells: CellItems) -> str:
    count, follows = counted(cells)
    lead = (
        f"{plural(count, 'request')} that the current set admits, and that would be denied although nothing else was."
    )
    several = sum(cell.count for key, cell in roots(cells) if len(key.policies) > 1)
    if several:
        lead += f" {number(several)} of them are denied by several policies, and counted for each."
    if spared := result.summary.spared:
        lead += f" {number(spared)} would be admitted after all: an earlier request has changed their object by then."
    if follows:
        lead += f" {number(follows)} more only follow: what they are about is not there, or is otherwise by then."
    return lead


def _policies(result: RunResult, cells: CellItems, rows: int) -> Table:
    groups = grouped(cells, by_policy)
    columns = (
        Column("policy", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("alone", Align.NUMBER),
        Column("follow", Align.NUMBER),
        Column("most frequent message"),
        Column("workloads", Align.NUMBER, optional=True),
        Column("users", Align.NUMBER, optional=True),
        Column("where", Align.ID, optional=True),
    )
    shown = tuple(
        (
            inert(group.label),
            *map(number, (group.requests, group.alone, group.follows)),
            inert(_common_message(result, group.label)),
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
    """File and line of a policy, empty for what the cluster holds."""
    origin = result.origin(policy)
    return inert(f"{origin.file}:{origin.line}") if origin is not None else ""


def _common_message(result: RunResult, policy: str) -> str:
    messages = result.summary.messages.get((OutcomeKind.NEWLY_DENIED, policy))
    return max(messages.items(), key=lambda item: (item[1], item[0]))[0] if messages else ""


def _workloads(cells: CellItems, rows: int) -> Table:
    """Owning workloads with whom to talk to, and the policies by name."""
    groups = grouped(cells, by_workload)
    columns = (
        Column("owning workload", Align.CODE),
        Column("owner"),
        Column("requests", Align.NUMBER),
        Column("follow", Align.NUMBER),
        Column("last seen, UTC", Align.SHORT),
        Column("policies", Align.CODE, optional=True),
        Column("users", Align.CODE, optional=True),
    )
    shown = tuple(
        (
            inert(group.label),
            _names(group.owners),
            number(group.requests),
            number(group.follows),
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
    """Groups counted by requests, and by what differs inside them."""
    counts = tuple(count for count in _COUNTS if count != name)
    columns = (
        Column(label, Align.CODE),
        Column("requests", Align.NUMBER),
        Column("follow", Align.NUMBER),
        *(Column(count, Align.NUMBER, optional=count == "namespaces") for count in counts),
        Column("last seen, UTC", Align.SHORT, optional=True),
    )
    shown = tuple(
        (
            inert(group.label),
            number(group.requests),
            number(group.follows),
            *(number(len(getattr(group, count))) for count in counts),
            minute(group.last) if group.requests else "",
        )
        for group in groups[:rows]
    )
    foot, rest = _foot(columns, cells), _rest(groups[rows:])
    return Table(name, f"By {label}", columns, shown, len(groups), foot=foot, rest=rest)


def examples_section(result: RunResult, rows: int) -> Section | None:
    """The first root finding of each policy; None where there is none."""
    groups = grouped(roots(cells_with(result.summary, OutcomeKind.NEWLY_DENIED)), by_policy)
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
    lead = "The first request of each policy; `replay explain` with an audit id shows every step."
    table = Table("examples-table", "", columns, tuple(shown), len(groups))
    return Section("examples", "Examples", lead, (table,), quiet=True)
