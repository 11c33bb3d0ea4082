"""The report of `replay run`: what a candidate would change, and how far to believe it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.result import RunResult
from replay.compare.summary import Summary, decided
from replay.compare.world_facts import WorldFacts
from replay.report.authorization.changes import authorization_facts, authorization_sections, authorization_verdict
from replay.report.render.document import (
    Align,
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
from replay.report.run.accepted import accepted_facts, accepted_section
from replay.report.run.charts import charts
from replay.report.run.denied import denied_section, examples_section, lockouts_section, views_section, where
from replay.report.run.hits import hits_section
from replay.report.run.mutations import mutation_sections
from replay.report.run.proofs import proof_section
from replay.report.run.trust import disagreements_section, fidelity_fact, gaps_section
from replay.report.run.views import (
    WORDS,
    CellItems,
    by_policy,
    by_user,
    by_workload,
    cells_with,
    counted,
    counts,
    grouped,
    labels_of,
    roots,
)
from replay.report.run.webhooks import failed_calls_fact, unknown_calls, webhook_section

_TOLD = (OutcomeKind.NEWLY_DENIED, *MUTATIONS, OutcomeKind.NEWLY_ADMITTED)
"""The outcomes that the one sentence is about."""
TERMINAL_ROWS = 8
PAGE_ROWS = 200


def run_document(
    result: RunResult, *, rows: int = TERMINAL_ROWS, with_charts: bool = False, hits: int | None = 0
) -> Document:
    """The document of one run with at most `rows` rows a table; charts only for formats that draw them.

    Of who is hit by which policy there are `hits` rows, all if None.
    """
    authorization = authorization_sections(result.authorization, rows) if result.authorization is not None else []
    sections = [
        *(section for section in authorization if not section.quiet),
        lockouts_section(result, rows),
        denied_section(result, rows),
        _charts(result) if with_charts else None,
        hits_section(result, hits),
        views_section(result, rows),
        examples_section(result, rows),
        *mutation_sections(result.summary, rows, partial(where, result)),
        webhook_section(result, rows),
        _others(result, rows),
        proof_section(result),
        _changes(result, rows),
        gaps_section({gap: n for (side, gap), n in result.summary.gaps.items() if side == "candidate"}, rows),
        disagreements_section(result.fidelity, rows),
        *(section for section in authorization if section.quiet),
        accepted_section(result.accepted, rows),
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
    by_outcome = counts(result.summary)
    parts = [f"{number(by_outcome[kind][0])} {WORDS[kind]}" for kind in _TOLD if by_outcome[kind][0]]
    follows = sum(by_outcome[kind][1] for kind in _TOLD)
    determined, total = decided(result.summary, "candidate")
    unknown = f" {plural(total - determined, 'request')} could not be decided." if total > determined else ""
    if calls := unknown_calls(result.summary):
        unknown += f" {plural(calls, 'new call')} of webhooks that were not asked could deny or change more."
    if not parts:
        return f"Nothing new is denied or mutated in {plural(determined, 'decided request')}.{unknown}", (
            Tone.WARN if unknown else Tone.GOOD
        )
    tone = Tone.BAD if by_outcome[OutcomeKind.NEWLY_DENIED][0] else Tone.WARN
    following = f" {number(follows)} more only follow from these." if follows else ""
    return f"{', '.join(parts)} of {plural(total, 'request')} that reached validation.{following}{unknown}", tone


def _facts(result: RunResult) -> tuple[Fact, ...]:
    log, summary = result.log, result.summary
    determined, total = decided(summary, "candidate")
    newly_denied, _ = counts(summary)[OutcomeKind.NEWLY_DENIED]
    rejected = sum(log.rejects.values())
    return (
        Fact("Read", plural(log.events, "event"), _read_note(result)),
        *(authorization_facts(result.authorization) if result.authorization is not None else ()),
        Fact("Admission saw", plural(log.admission, "request"), _not_reached_note(result)),
        Fact(
            "Decided",
            share(determined, total),
            f"{number(determined)} of {number(total)}",
            Tone.GOOD if determined == total else Tone.WARN,
        ),
        fidelity_fact(result.fidelity),
        Fact("Newly denied", number(newly_denied), _spread(result), Tone.BAD if newly_denied else Tone.GOOD),
        *mutation_facts(summary),
        *accepted_facts(result.accepted),
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
            plural(world.roots, "request"),
            f"would end otherwise on their own, {number(world.consequences)} in consequence ({ends}){not_sent}",
            Tone.WARN,
        )
    ]
    if world.retried:
        note = f"would retry what is refused until it is admitted, about {plural(world.refused, 'time')} in this log"
        note += f", {world.refused_in_log:,} of them as at the time" if world.refused_in_log else ""
        facts.append(Fact("Controllers", f"for {plural(world.retried, 'owner')}", note, Tone.WARN))
    return facts


def mutation_facts(summary: Summary) -> Iterator[Fact]:
    """How many requests are newly mutated; those mutated otherwise, and no longer, only where there are any."""
    by_outcome = counts(summary)
    for kind in MUTATIONS:
        count, follows = by_outcome[kind]
        if count or follows or kind is OutcomeKind.NEWLY_MUTATED:
            tone = Tone.WARN if count else Tone.GOOD
            yield Fact(WORDS[kind].capitalize(), number(count), _following(follows), tone)


def _following(count: int) -> str:
    return f"{number(count)} more only follow" if count else ""


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
    own = roots(cells)
    parts = [
        plural(len(labels_of(own, by_policy)), "policy", "policies"),
        plural(len(labels_of(own, by_workload)), "workload"),
        plural(len(labels_of(own, by_user)), "user"),
    ]
    following = _following(counted(cells)[1])
    return "; ".join(filter(None, (", ".join(parts), following)))


def _charts(result: RunResult) -> Section | None:
    drawn = charts(result)
    return Section("when-and-where", "When and where", "", drawn) if drawn else None


def _others(result: RunResult, rows: int) -> Section | None:
    kinds = (OutcomeKind.NEWLY_ADMITTED, OutcomeKind.NEWLY_WARNED, OutcomeKind.NEWLY_AUDITED)
    cells = cells_of(result, *kinds)
    if not cells:
        return None
    groups = grouped(cells, lambda key: tuple(f"{WORDS[key.outcome]}\0{policy}" for policy in key.policies))
    table = Table(
        "others",
        "",
        (
            Column("what"),
            Column("policy or message", Align.CODE),
            Column("requests", Align.NUMBER),
            Column("follow", Align.NUMBER),
            Column("users", Align.NUMBER),
        ),
        tuple(
            (*map(inert, group.label.split("\0", 1)), *map(number, (group.requests, group.follows, len(group.users))))
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
