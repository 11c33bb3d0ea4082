"""The report of `replay run`: what a candidate would change, and how far to believe it."""

from __future__ import annotations

from collections.abc import Iterator

from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.result import RunResult
from replay.compare.summary import Summary, decided
from replay.compare.world_facts import WorldFacts
from replay.report.authorization.changes import authorization_facts, authorization_sections, authorization_verdict
from replay.report.render.document import (
    Align,
    Block,
    Column,
    Document,
    Fact,
    Listing,
    Section,
    Table,
    Tone,
    few,
    inert,
    moment,
    number,
    plural,
    share,
    size,
    span,
)
from replay.report.run.charts import charts
from replay.report.run.mutations import WORDS as MUTATION_WORDS
from replay.report.run.mutations import mutation_sections
from replay.report.run.trust import disagreements_section, fidelity_fact, gaps_section
from replay.report.run.views import (
    CellItems,
    Group,
    by_kind,
    by_namespace,
    by_policy,
    by_user,
    by_workload,
    cells_with,
    grouped,
    labels_of,
    lockout,
)
from replay.report.run.webhooks import failed_calls_fact, unknown_calls, webhook_section

TERMINAL_ROWS = 8
PAGE_ROWS = 200
_WORDS = {
    OutcomeKind.NEWLY_DENIED: "newly denied",
    OutcomeKind.NEWLY_ADMITTED: "newly admitted",
    **MUTATION_WORDS,
    OutcomeKind.NEWLY_WARNED: "newly warned",
    OutcomeKind.NEWLY_AUDITED: "newly audited",
    OutcomeKind.UNDETERMINED: "undetermined",
}


def run_document(result: RunResult, *, rows: int = TERMINAL_ROWS, with_charts: bool = False) -> Document:
    """The document of one run with at most `rows` rows a table; charts only for formats that draw them."""
    authorization = authorization_sections(result.authorization, rows) if result.authorization is not None else []
    sections = [
        *(section for section in authorization if not section.quiet),
        _lockouts(result, rows),
        _denied(result, rows, with_charts=with_charts),
        _examples(result, rows),
        *mutation_sections(result.summary, rows),
        webhook_section(result, rows),
        _others(result, rows),
        _changes(result, rows),
        gaps_section({gap: n for (side, gap), n in result.summary.gaps.items() if side == "candidate"}, rows),
        disagreements_section(result.fidelity, rows),
        *(section for section in authorization if section.quiet),
        _reading(result),
    ]
    verdict, tone = _whole_verdict(result)
    return Document(
        title="What would this policy change do?",
        subtitle=f"{result.current.name} → {result.candidate.name} · {few(result.log.names)}",
        verdict=verdict,
        tone=tone,
        facts=_facts(result),
        sections=tuple(section for section in sections if section is not None),
    )


def cells_of(result: RunResult, *outcomes: OutcomeKind) -> CellItems:
    """The cells of some outcomes in a stable order."""
    return cells_with(result.summary, *outcomes)


def _whole_verdict(result: RunResult) -> tuple[str, Tone]:
    """What the authorizers would do, then what admission would."""
    verdict, tone = _verdict(result)
    authorized, grave = authorization_verdict(result.authorization) if result.authorization is not None else ("", tone)
    if not authorized:
        return verdict, tone
    return f"{authorized} {verdict}", Tone.BAD if Tone.BAD in (tone, grave) else Tone.WARN


def _verdict(result: RunResult) -> tuple[str, Tone]:
    counts = result.summary.outcomes
    parts = [
        f"{number(counts[kind])} {_WORDS[kind]}"
        for kind in (OutcomeKind.NEWLY_DENIED, *MUTATIONS, OutcomeKind.NEWLY_ADMITTED)
        if counts[kind]
    ]
    known, total = decided(result.summary, "candidate")
    unknown = f" {plural(total - known, 'request')} could not be decided." if total > known else ""
    if calls := unknown_calls(result.summary):
        unknown += f" {plural(calls, 'new call')} of webhooks that were not asked could deny or change more."
    if not parts:
        return f"Nothing new is denied or mutated in {plural(known, 'decided request')}.{unknown}", (
            Tone.WARN if unknown else Tone.GOOD
        )
    tone = Tone.BAD if counts[OutcomeKind.NEWLY_DENIED] else Tone.WARN
    return f"{', '.join(parts)} of {plural(total, 'request')} that reached validation.{unknown}", tone


def _facts(result: RunResult) -> tuple[Fact, ...]:
    log, summary = result.log, result.summary
    known, total = decided(summary, "candidate")
    newly_denied = summary.outcomes[OutcomeKind.NEWLY_DENIED]
    rejected = sum(log.rejects.values())
    return (
        Fact("Read", plural(log.events, "event"), _read_note(result)),
        *(authorization_facts(result.authorization) if result.authorization is not None else ()),
        Fact("Admission saw", plural(log.admission, "request"), _not_reached_note(result)),
        Fact(
            "Decided",
            share(known, total),
            f"{number(known)} of {number(total)}",
            Tone.GOOD if known == total else Tone.WARN,
        ),
        fidelity_fact(result.fidelity),
        Fact("Newly denied", number(newly_denied), _spread(result), Tone.BAD if newly_denied else Tone.GOOD),
        *mutation_facts(summary),
        *_world_facts(result.world),
        *([failed] if (failed := failed_calls_fact(summary)) else []),
        *([Fact("Not usable", plural(rejected, "line"), "listed by --rejects", Tone.WARN)] if rejected else []),
    )


def _world_facts(world: WorldFacts) -> list[Fact]:
    """What would happen after the first difference: the verdicts above are those of each request taken alone."""
    if not (world.roots or world.consequences or world.not_sent):
        return []
    ends = ", ".join(f"{number(count)} {cause}" for cause, count in world.ends.most_common())
    not_sent = f"; {plural(world.not_sent, 'request')} of controllers would not be sent" if world.not_sent else ""
    facts = [
        Fact(
            "In that world",
            f"{number(world.roots)} + {number(world.consequences)}",
            f"requests end otherwise on their own + in consequence ({ends}){not_sent}",
            Tone.WARN,
        )
    ]
    if world.retried:
        note = f"would retry what is refused until it is admitted, about {plural(world.refused, 'time')} in this log"
        facts.append(Fact("Controllers", f"for {plural(world.retried, 'owner')}", note, Tone.WARN))
    return facts


def mutation_facts(summary: Summary) -> Iterator[Fact]:
    """How many requests are newly mutated; those mutated otherwise, and no longer, only where there are any."""
    for kind in MUTATIONS:
        count = summary.outcomes[kind]
        if count or kind is OutcomeKind.NEWLY_MUTATED:
            yield Fact(_WORDS[kind].capitalize(), number(count), "", Tone.WARN if count else Tone.GOOD)


def _read_note(result: RunResult) -> str:
    log = result.log
    files = f"{plural(log.files, 'file')}, {size(log.octets)}" if log.octets else plural(log.files, "file")
    return f"{files}; {moment(log.first)}, {span(log.last - log.first)}"


def _not_reached_note(result: RunResult) -> str:
    count = result.summary.not_reached.total()
    return f"{number(count)} failed before validation" if count else ""


def _spread(result: RunResult) -> str:
    cells = cells_of(result, OutcomeKind.NEWLY_DENIED)
    if not cells:
        return ""
    follows = sum(cell.count for key, cell in cells if key.follows)
    parts = [
        plural(len(labels_of(cells, by_policy)), "policy", "policies"),
        plural(len(labels_of(cells, by_workload)), "workload"),
        plural(len(labels_of(cells, by_user)), "user"),
    ]
    return ", ".join(parts) + (f"; {number(follows)} would not come so far" if follows else "")


_COUNTS = ("policies", "workloads", "users", "namespaces")
_TOLD = {"workloads": "namespaces"}
"""A count that says nothing: a workload lies in one namespace."""


def _table(name: str, label: str, groups: list[Group], rows: int) -> Table:
    """Groups counted by requests, and by what differs inside them."""
    counts = tuple(count for count in _COUNTS if count not in (name, _TOLD.get(name)))
    columns = (
        Column(label, Align.CODE),
        Column("requests", Align.NUMBER),
        *(Column(count, Align.NUMBER, optional=count == "namespaces") for count in counts),
        Column("last seen", optional=True),
    )
    shown = tuple(
        (
            inert(group.label),
            number(group.requests),
            *(number(len(getattr(group, count))) for count in counts),
            moment(group.last),
        )
        for group in groups[:rows]
    )
    return Table(name, f"By {label}", columns, shown, len(groups))


def _lockouts(result: RunResult, rows: int) -> Section | None:
    cells = [item for item in cells_of(result, OutcomeKind.NEWLY_DENIED) if lockout(item[0])]
    if not cells:
        return None
    groups = grouped(cells, lambda key: (f"{lockout(key)}\0{key.user}\0{key.resource}",))
    order = ("control plane", "node", "kube-system service account", "kube-system namespace", "service account")
    groups.sort(key=lambda group: (order.index(group.label.partition("\0")[0]), -group.requests, group.label))
    table = Table(
        "lockouts",
        "",
        (
            Column("who"),
            Column("user", Align.CODE),
            Column("resource", Align.CODE),
            Column("requests", Align.NUMBER),
            Column("policies", Align.CODE, optional=True),
        ),
        tuple(
            (*map(inert, group.label.split("\0")), number(group.requests), inert(", ".join(sorted(group.policies))))
            for group in groups[:rows]
        ),
        len(groups),
    )
    lead = "Requests of the control plane, of nodes, of service accounts and in kube-system that would be denied."
    return Section("lockouts", "Lockouts first", lead, (table,), Tone.BAD)


def _denied(result: RunResult, rows: int, *, with_charts: bool) -> Section | None:
    cells = cells_of(result, OutcomeKind.NEWLY_DENIED)
    if not cells:
        return None
    roots = [item for item in cells if not item[0].follows]
    drawn: tuple[Block, ...] = charts(result, cells) if with_charts else ()
    blocks: list[Block] = [
        _policies(result, cells, rows),
        *drawn,
        _table("workloads", "owning workload", grouped(cells, by_workload), rows),
        _table("users", "user", grouped(cells, by_user), rows),
        _table("namespaces", "namespace", grouped(cells, by_namespace), rows),
        _table("kinds", "resource", grouped(cells, by_kind), rows),
    ]
    count = sum(cell.count for _, cell in cells)
    lead = f"{plural(count, 'request')} that the current set admits."
    follows = count - sum(cell.count for _, cell in roots)
    if follows:
        lead += (
            f" Each is taken alone; {number(follows)} of them would not come so far, for what they are about is not there"
            " or is otherwise by then."
        )
    return Section("newly-denied", "Newly denied", lead, tuple(blocks), Tone.BAD)


def _policies(result: RunResult, cells: CellItems, rows: int) -> Table:
    groups = grouped(cells, by_policy)
    columns = (
        Column("policy", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("workloads", Align.NUMBER),
        Column("users", Align.NUMBER),
        Column("most frequent message"),
    )
    shown = []
    for group in groups[:rows]:
        messages = result.summary.messages.get((OutcomeKind.NEWLY_DENIED, group.label))
        common = max(messages.items(), key=lambda item: (item[1], item[0]))[0] if messages else ""
        shown.append(
            (
                inert(group.label),
                number(group.requests),
                number(len(group.workloads)),
                number(len(group.users)),
                inert(common),
            )
        )
    return Table("policies", "By policy", columns, tuple(shown), len(groups))


def _examples(result: RunResult, rows: int) -> Section | None:
    groups = grouped(cells_of(result, OutcomeKind.NEWLY_DENIED), by_policy)
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
        for example, key in group.examples[:1]:
            message = dict(zip(key.policies, example.messages, strict=False)).get(group.label, "")
            where = f"{key.namespace}/{example.name}" if key.namespace else example.name
            shown.append(
                (
                    inert(group.label),
                    inert(f"{example.operation} {key.resource} {where}"),
                    inert(key.user),
                    inert(message),
                    inert(example.audit_id),
                )
            )
    lead = "The first request of each policy; `replay explain` with an audit id shows every step."
    return Section(
        "examples", "Examples", lead, (Table("examples", "", columns, tuple(shown), len(groups)),), quiet=True
    )


def _others(result: RunResult, rows: int) -> Section | None:
    kinds = (OutcomeKind.NEWLY_ADMITTED, OutcomeKind.NEWLY_WARNED, OutcomeKind.NEWLY_AUDITED)
    cells = cells_of(result, *kinds)
    if not cells:
        return None
    groups = grouped(cells, lambda key: tuple(f"{_WORDS[key.outcome]}\0{policy}" for policy in key.policies))
    table = Table(
        "others",
        "",
        (
            Column("what"),
            Column("policy or message", Align.CODE),
            Column("requests", Align.NUMBER),
            Column("users", Align.NUMBER),
        ),
        tuple(
            (*map(inert, group.label.split("\0", 1)), number(group.requests), number(len(group.users)))
            for group in groups[:rows]
        ),
        len(groups),
    )
    return Section("others", "Also different", "Changes that deny and mutate nothing.", (table,), quiet=True)


def _changes(result: RunResult, rows: int) -> Section | None:
    """The semantic difference of the sets: object by object in the terminal, field by field on a page."""
    if not result.changes:
        return None
    objects = [line for line in result.changes if not line.startswith(" ")]
    shown = list(result.changes) if rows > TERMINAL_ROWS else objects[:rows]
    if len(shown) < len(objects):
        shown.append(f"… and {number(len(objects) - len(shown))} more; `replay diff` shows all")
    text = "\n".join(inert(line) for line in shown)
    caption = plural(len(objects), "object") + " changed"
    return Section("changes", "What changes in the set", "", (Listing(caption, text),), quiet=True)


def _reading(result: RunResult) -> Section | None:
    log = result.log
    lines = [(inert(reason), number(count)) for reason, count in sorted(log.rejects.items())]
    lines += [
        (f"not reached: {inert(reason)}", number(count)) for reason, count in sorted(result.summary.not_reached.items())
    ]
    if log.duplicates:
        lines.append(("duplicate events", number(log.duplicates)))
    lines += [(f"at {inert(example)}", "") for example in log.reject_examples]
    lines += [(inert(note), "") for note in result.notes]
    if not lines:
        return None
    table = Table("reading", "", (Column("what"), Column("number", Align.NUMBER)), tuple(lines), len(lines))
    return Section("reading", "What was left out", "", (table,), quiet=True)
