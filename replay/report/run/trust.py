"""How far a report can be believed: what the current set reproduces of the log, and what the log does not hold."""

from __future__ import annotations

from collections.abc import Mapping

from replay.compare.fidelity import Agreement, Fidelity
from replay.compare.summary import Gap
from replay.report.disagreement import differing
from replay.report.render.document import Align, Column, Fact, Section, Table, Tone, inert, number, share, without_empty


def fidelity_fact(fidelity: Fidelity) -> Fact:
    """The one line before any prediction: what the current set reproduces of what happened."""
    parts = [
        f"{_kept(agreement)} {noun}"
        for agreement, noun in (
            (fidelity.denials, "denials"),
            (fidelity.failures, "audited failures"),
            (fidelity.annotations, "policy annotations"),
        )
        if agreement.observed or agreement.extra
    ]
    if not parts:
        return Fact("Fidelity", "not checkable", "the log holds no decision of the current set", Tone.WARN)
    observed = fidelity.denials.observed + fidelity.failures.observed + fidelity.annotations.observed
    reproduced = fidelity.denials.reproduced + fidelity.failures.reproduced + fidelity.annotations.reproduced
    tone = Tone.GOOD if not fidelity.disagreement_count else Tone.WARN
    return Fact("Fidelity", share(min(reproduced, observed), observed), "reproduced: " + ", ".join(parts), tone)


def _kept(agreement: Agreement) -> str:
    extra = f" (+{number(agreement.extra)} not in the log)" if agreement.extra else ""
    return f"{number(agreement.reproduced)}/{number(agreement.observed)}{extra}"


def gaps_section(gap_counts: Mapping[Gap, int], rows: int) -> Section | None:
    """What the log does not hold, by the verdicts that it costs; None where everything was decided."""
    gaps = sorted(gap_counts.items(), key=lambda item: (-item[1], item[0]))
    if not gaps:
        return None
    columns = (
        Column("policy", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("not known", Align.CODE),
        Column("why"),
        Column("what would record it", optional=True),
    )
    table = Table(
        "gaps",
        "",
        columns,
        tuple(
            (inert(gap.policy), number(count), inert(gap.path), inert(gap.reason), inert(gap.fix))
            for gap, count in gaps[:rows]
        ),
        len(gaps),
    )
    lead = "The log does not hold what these verdicts depend on. They are no prediction in either direction."
    return Section("undetermined", "Not decided", lead, (without_empty(table),), Tone.WARN)


def disagreements_section(fidelity: Fidelity, rows: int) -> Section | None:
    """Where replay and log differ; None where they nowhere do."""
    if not fidelity.disagreement_count:
        return None
    columns = (
        Column("audit id", Align.ID),
        Column("what"),
        Column("the log says"),
        Column("the current set says"),
        Column("likely cause", optional=True),
    )
    shown = tuple(
        (inert(d.audit_id), d.aspect, *map(inert, differing(d)), inert(d.cause))
        for d in sorted(fidelity.disagreements)[:rows]
    )
    table = Table("disagreements", "", columns, shown, fidelity.disagreement_count)
    lead = "Where the replay of the current set and the log differ. `replay verify` looks for the cause."
    return Section("fidelity", "Disagreements with what happened", lead, (without_empty(table),), Tone.WARN)
