"""The full report of `replay run`: what a candidate would change, and whether to trust the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from replay.compare.outcome import MUTATIONS, WORDS, OutcomeKind
from replay.compare.result import RunResult, WorldFacts
from replay.compare.summary import Summary
from replay.report.render.charts import MAX_SERIES
from replay.report.render.document import (
    MICROSECONDS,
    Align,
    Chart,
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
    size,
    span,
)
from replay.report.run.api_versions import api_versions_fact, api_versions_section
from replay.report.run.authorization import authorization_facts, authorization_sections
from replay.report.run.denied import (
    accepted_facts,
    accepted_section,
    bootstrap_gap_fact,
    denied_section,
    examples_section,
    lockouts_section,
    views_section,
    where,
)
from replay.report.run.hits import hits_section
from replay.report.run.mutations import mutation_sections
from replay.report.run.proofs import proof_section
from replay.report.run.summary import TITLE, determined_fact, lockout_fact, run_verdict, summary_tables
from replay.report.run.triggered import triggered_section
from replay.report.run.views import (
    CellItems,
    by_namespace,
    by_policy,
    by_user,
    by_workload,
    cells_with,
    counts,
    direct,
    grouped,
    labels_of,
)
from replay.report.run.webhooks import failed_calls_fact, outage_facts, outage_section, webhook_section
from replay.report.trust import disagreements_section, fidelity_fact, gaps_section, mismatch

# Charts of a run: first and last hits of each policy, their places, and undetermined requests over time.

MAX_BUCKETS = 60
MAX_ROWS = 12
_STEPS = (1, 5, 15, 60, 240, 1440, 10080)
_MINUTE = 60 * MICROSECONDS
_DAY = 1440


class Axis(NamedTuple):
    """The time of a log in `length` steps of `step` minutes. `start` is a minute since the epoch."""

    start: int
    step: int
    length: int

    def place(self, minute: int) -> int:
        """Return the step of a minute."""
        return min(max((minute - self.start) // self.step, 0), self.length - 1)

    def position(self, microseconds: int) -> float:
        """Return a time's position between steps."""
        return (microseconds / _MINUTE - self.start) / self.step

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the steps."""
        times = (moment((self.start + i * self.step) * _MINUTE) for i in range(self.length))
        return tuple(time[5:10] if self.step >= _DAY else time[11:16] for time in times)


def charts(result: RunResult) -> tuple[Chart, ...]:
    """Return the charts that show more than a table. One row, one column or one instant makes no chart."""
    kind, cells = _subject(result)
    drawn = (_time(result, kind, cells), _heat(kind, cells), _undecided(result))
    return tuple(chart for chart in drawn if chart is not None)


def _subject(result: RunResult) -> tuple[OutcomeKind, CellItems]:
    """Return the outcome and the direct findings of the charts: denials, or else the mutations of one kind."""
    for kind in (OutcomeKind.NEWLY_DENIED, *MUTATIONS):
        if cells := direct(cells_with(result.summary, kind)):
            return kind, cells
    return OutcomeKind.NEWLY_DENIED, []


def _axis(result: RunResult) -> Axis:
    """Return the whole time of the log, to show whether something continues at its end."""
    first, last = result.log.first // _MINUTE, result.log.last // _MINUTE
    step = next((step for step in _STEPS if (last - first) // step < MAX_BUCKETS), _STEPS[-1])
    start = first - first % step
    return Axis(start, step, (last - start) // step + 1)


def _buckets(result: RunResult, axis: Axis, kind: OutcomeKind) -> dict[str, Counter[int]]:
    """Return the direct findings by policy and step."""
    counters: dict[str, Counter[int]] = {}
    for (minute, outcome, policy), count in result.summary.timeline.items():
        if outcome is kind:
            counters.setdefault(policy, Counter())[axis.place(minute)] += count
    return counters


def _values(counts: Mapping[int, int], length: int) -> tuple[float, ...]:
    return tuple(float(counts.get(i, 0)) for i in range(length))


def _time(result: RunResult, kind: OutcomeKind, cells: CellItems) -> Chart | None:
    """Return a chart with a row for each policy, from its first hit to its last, within the time of the log."""
    axis = _axis(result)
    buckets = _buckets(result, axis, kind)
    groups = grouped(cells, by_policy)
    if axis.length < 2 or not groups:
        return None
    first, last = min(group.first for group in groups), max(group.last for group in groups)
    shown = groups[:MAX_ROWS]
    series = {inert(group.label): _values(buckets.get(group.label, {}), axis.length) for group in shown}
    spans = tuple((axis.position(group.first), axis.position(group.last)) for group in shown)
    notes = tuple(f"{_clock(group.first, axis)} to {_clock(group.last, axis)}" for group in shown)
    text = (
        f"First hit {moment(first)}, last hit {moment(last)}; the log goes from {moment(result.log.first)} to "
        f"{moment(result.log.last)}. {_not_drawn(len(groups))}"
    )
    title = f"{WORDS[kind].capitalize()}: first and last hit by policy, UTC"
    return Chart("chart-time", "spans", title, inert(text.strip()), axis.labels, series, spans=spans, notes=notes)


def _not_drawn(groups: int) -> str:
    return f"{plural(groups - MAX_ROWS, 'other policy', 'other policies')} not drawn." if groups > MAX_ROWS else ""


def _clock(microseconds: int, axis: Axis) -> str:
    """Return a time of day, with the day if the log has several days."""
    text = moment(microseconds)
    return text[11:19] if axis.step * axis.length <= _DAY else text[5:16]


def _heat(kind: OutcomeKind, cells: CellItems) -> Chart | None:
    """Return where each policy hits. No table combines policies and namespaces."""
    policies = [group.label for group in grouped(cells, by_policy)]
    names = [group.label for group in grouped(cells, by_namespace)]
    if len(policies) < 2 or len(names) < 2:
        return None
    counts: Counter[tuple[str, str]] = Counter()
    for key, cell in cells:
        counts.update({(policy, name): cell.count for policy in key.policies for name in by_namespace(key)})
    (policy, name), most = max(counts.items(), key=lambda item: (item[1], item[0]))
    text = f"Most in {name} by {policy} ({number(most)}). {_not_drawn(len(policies))}"
    names = [name for name in names if any(counts[policy, name] for policy in policies[:MAX_ROWS])]
    rows = {inert(p): tuple(float(counts[p, n]) for n in names[:MAX_ROWS]) for p in policies[:MAX_ROWS]}
    title = f"{WORDS[kind].capitalize()} by policy and namespace"
    return Chart("chart-heat", "heat", title, inert(text.strip()), tuple(map(inert, names[:MAX_ROWS])), rows)


def _undecided(result: RunResult) -> Chart | None:
    """Return a chart of undetermined requests added up over time.

    It shows whether the log lacks something once, or more and more.
    """
    axis = _axis(result)
    counters = _buckets(result, axis, OutcomeKind.UNDETERMINED)
    policies = {gap.policy for side, gap in result.summary.gaps if side == "candidate"}
    buckets = {policy: counts for policy, counts in counters.items() if policy in policies}
    if axis.length < 2 or len({place for counts in buckets.values() for place in counts}) < 2:
        return None
    names = sorted(buckets, key=lambda name: (-buckets[name].total(), name))
    shown = names[: MAX_SERIES - 1]
    series = {inert(name): _growing(_values(buckets[name], axis.length)) for name in shown}
    if rest := names[MAX_SERIES - 1 :]:
        together = Counter[int]()
        for name in rest:
            together.update(buckets[name])
        series[f"{len(rest)} others"] = _growing(_values(together, axis.length))
    half = sum(values[axis.length // 2 - 1] for values in series.values())
    total = sum(values[-1] for values in series.values())
    text = f"{number(int(half))} in the first half of the log, {number(int(total))} at its end; most by {names[0]}."
    title = "Undetermined, cumulative over time, UTC"
    return Chart("chart-undecided", "lines", title, inert(text), axis.labels, series)


def _growing(values: Iterable[float]) -> tuple[float, ...]:
    total, totals = 0.0, []
    for value in values:
        total += value
        totals.append(total)
    return tuple(totals)


_ENDS = {"absent": "not found", "succeeds": "succeed"}
"""Words for causes of predicted outcomes whose names are not clear."""
TERMINAL_ROWS = 8
PAGE_ROWS = 200


def run_document(
    result: RunResult,
    *,
    rows: int = TERMINAL_ROWS,
    with_charts: bool = False,
    hits: int | None = 0,
    with_summary: bool = False,
) -> Document:
    """Return the full report, with at most `rows` rows in a table.

    `with_charts` is for formats that draw them, `with_summary` for pages that begin with the tables of the first
    screen. `hits` limits the table of affected workloads by policy, and None means all rows.
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
        outage_section(result, rows),
        webhook_section(result, rows),
        triggered_section(result, rows),
        api_versions_section(result, rows),
        _other_differences(result, rows),
        proof_section(result),
        _changes(result, rows),
        gaps_section({gap: n for (side, gap), n in result.summary.gaps.items() if side == "candidate"}, rows),
        disagreements_section(result.fidelity, rows),
        *(section for section in authorization if section.quiet),
        accepted_section(result.accepted, rows),
        _reading(result),
    ]
    verdict, tone = run_verdict(result)
    if warning := mismatch(result):
        verdict, tone = f"{warning} {verdict}", Tone.BAD
    return Document(
        title=TITLE,
        subtitle=f"{result.subject} · {few(result.log.names)}",
        verdict=verdict,
        tone=tone,
        facts=_facts(result),
        summary=summary_tables(result) if with_summary else (),
        sections=tuple(section for section in sections if section is not None),
    )


def cells_of(result: RunResult, *outcomes: OutcomeKind) -> CellItems:
    """Return the cells of some outcomes in a stable order."""
    return cells_with(result.summary, *outcomes)


def _facts(result: RunResult) -> tuple[Fact, ...]:
    log, summary = result.log, result.summary
    newly_denied, _ = counts(summary)[OutcomeKind.NEWLY_DENIED]
    rejected = sum(log.rejects.values())
    return (
        Fact("Log", plural(log.events, "event"), _log_note(result)),
        *(authorization_facts(result.authorization) if result.authorization is not None else ()),
        Fact("Admission", plural(log.admission, "request"), _not_reached_note(result)),
        determined_fact(result),
        fidelity_fact(result.fidelity),
        lockout_fact(cells_of(result, OutcomeKind.NEWLY_DENIED)),
        Fact("Denied", number(newly_denied), _spread(result), Tone.BAD if newly_denied else Tone.GOOD),
        *mutation_facts(summary),
        *accepted_facts(result.accepted),
        *_world_facts(result.world),
        *outage_facts(result),
        *([gap] if (gap := bootstrap_gap_fact(result)) else []),
        *([served] if (served := api_versions_fact(result)) else []),
        *([failed] if (failed := failed_calls_fact(summary)) else []),
        *([Fact("Unusable", plural(rejected, "line"), "list them with --rejects FILE", Tone.WARN)] if rejected else []),
    )


def _world_facts(world: WorldFacts) -> list[Fact]:
    """Return what would happen to the requests after the first one that ends differently."""
    if not (world.roots or world.consequences or world.not_sent):
        return []
    ends = ", ".join(f"{number(count)} {_ENDS.get(cause, cause)}" for cause, count in world.ends.most_common())
    not_sent = f"; controllers would not send {plural(world.not_sent, 'request')}" if world.not_sent else ""
    note = f"end differently: {number(world.roots)} directly, {number(world.consequences)} as a consequence ({ends}){not_sent}"
    count = world.roots + world.consequences
    facts = [Fact("Predicted outcome", plural(count, "request"), note, Tone.WARN)]
    if world.retried:
        note = f"would retry denied requests, about {plural(world.refused, 'time')} in this log"
        note += f" ({world.refused_in_log:,} of these are in the log)" if world.refused_in_log else ""
        facts.append(Fact("Controllers", f"for {plural(world.retried, 'owner')}", note, Tone.WARN))
    return facts


def mutation_facts(summary: Summary) -> Iterator[Fact]:
    """Yield the numbers of mutated requests. Newly mutated ones are always shown, other kinds only if there are any."""
    by_outcome = counts(summary)
    for kind in MUTATIONS:
        count, follows = by_outcome[kind]
        if count or follows or kind is OutcomeKind.NEWLY_MUTATED:
            tone = Tone.WARN if count else Tone.GOOD
            yield Fact(WORDS[kind].capitalize(), number(count), _following(follows), tone)


def _following(count: int) -> str:
    return f"{number(count)} more as a consequence" if count else ""


def _log_note(result: RunResult) -> str:
    log = result.log
    files = f"{plural(log.files, 'file')}, {size(log.octets)}" if log.octets else plural(log.files, "file")
    return f"{files}; {moment(log.first)}, {span(log.last - log.first)}"


def _not_reached_note(result: RunResult) -> str:
    count = result.summary.not_reached.total()
    return f"{number(count)} ended before validation" if count else ""


def _spread(result: RunResult) -> str:
    cells = cells_of(result, OutcomeKind.NEWLY_DENIED)
    if not cells:
        return ""
    own = direct(cells)
    parts = [
        plural(len(labels_of(own, by_policy)), "policy", "policies"),
        plural(len(labels_of(own, by_workload)), "workload"),
        plural(len(labels_of(own, by_user)), "user"),
    ]
    return ", ".join(parts)


def _charts(result: RunResult) -> Section | None:
    drawn = charts(result)
    return Section("when-and-where", "When and where", "", drawn) if drawn else None


def _other_differences(result: RunResult, rows: int) -> Section | None:
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
            Column("direct", Align.NUMBER),
            Column("consequences", Align.NUMBER),
            Column("users", Align.NUMBER),
        ),
        tuple(
            (
                *map(inert, group.label.split("\0", 1)),
                *map(number, (group.requests, group.consequences, len(group.users))),
            )
            for group in groups[:rows]
        ),
        len(groups),
    )
    return Section("others", "Other differences", "These changes deny and mutate nothing.", (table,), quiet=True)


def _changes(result: RunResult, rows: int) -> Section | None:
    """Return the differences between the sets: objects in the terminal, fields on a page."""
    if not result.changes:
        return None
    objects = [line for line in result.changes if not line.startswith(" ")]
    shown = list(result.changes) if rows > TERMINAL_ROWS else objects[:rows]
    if len(shown) < len(objects):
        shown.append(f"… and {number(len(objects) - len(shown))} more; `replay diff` shows all")
    text = "\n".join(inert(line) for line in shown)
    caption = plural(len(objects), "object") + " changed"
    return Section("changes", "Changes between the sets", "", (Listing(caption, text),), quiet=True)


def _reading(result: RunResult) -> Section | None:
    log = result.log
    lines = [(inert(reason), number(count)) for reason, count in sorted(log.rejects.items())]
    lines += [
        (f"ended before validation: {inert(reason)}", number(count))
        for reason, count in sorted(result.summary.not_reached.items())
    ]
    if log.duplicates:
        lines.append(("duplicate events", number(log.duplicates)))
    lines += [(f"at {inert(example)}", "") for example in log.reject_examples]
    lines += [(inert(note), "") for note in result.notes]
    if not lines:
        return None
    table = Table("reading", "", (Column("what"), Column("number", Align.NUMBER)), tuple(lines), len(lines))
    return Section("reading", "Skipped", "", (table,), quiet=True)
