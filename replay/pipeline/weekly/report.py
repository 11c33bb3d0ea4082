"""`replay report` as a function: from a log or a store and a period to a `WeeklyResult`, in each of its formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, tzinfo
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from replay.audit.ingest import Progress
from replay.audit.period import Period
from replay.audit.reject import EXPLANATIONS, RejectReason
from replay.audit.store import Store
from replay.compare.fidelity import merged
from replay.compare.readiness import NamespaceReadiness
from replay.compare.subject import OWNER_LABEL
from replay.compare.weekly import EffectSide, Figures, FileFidelity, WeeklyResult
from replay.errors import AuditLogError, ReplayError
from replay.pipeline.authorization.permission import refusals
from replay.pipeline.facts import set_facts
from replay.pipeline.forensic.past import past_job
from replay.pipeline.log import opened
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.options import Options, instant, microseconds
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.workers import WorkerPool, prepare_workers, replay_parts
from replay.pipeline.scan import scan_store
from replay.pipeline.scenario import Scenario
from replay.pipeline.weekly.consequence import Enforcement, consequences_by_side
from replay.pipeline.weekly.figures import ReadinessJob, Slot, figures_of
from replay.pipeline.weekly.part import WeeklyPart, WeeklyTask
from replay.pipeline.weekly.promotion import STATIC_SUFFIX, candidate_mutations
from replay.pipeline.weekly.scope import scope_of
from replay.pipeline.whole_file import write_files
from replay.report.render.document import MICROSECONDS, moment
from replay.report.render.html import html
from replay.report.render.markdown import markdown
from replay.report.render.terminal import print_document
from replay.report.weekly.json import kept_before, kept_name, read_figures, weekly_json
from replay.report.weekly.report import PAGE_ROWS, weekly_document, weekly_screen


def print_weekly(result: WeeklyResult, console: Console, zone: tzinfo, *, full: bool = False) -> None:
    """Print the first screen of a report, or the full report."""
    print_document(weekly_document(result, zone=zone) if full else weekly_screen(result, zone), console)


def weekly_markdown(result: WeeklyResult, zone: tzinfo, *, brief: bool) -> str:
    """Return the report as Markdown. `brief` fits a comment of a pull request."""
    return markdown(weekly_document(result, zone=zone, rows=PAGE_ROWS, with_charts=not brief), brief=brief)


def write_weekly(result: WeeklyResult, directory: Path, zone: tzinfo, *, brief: bool) -> None:
    """Write `report.html`, `report.md`, `report.json` and the JSON for the next report into a directory.

    The directory is created. Raise ReplayError if they cannot be written.
    """
    page = html(weekly_document(result, zone=zone, rows=PAGE_ROWS, with_charts=True))
    text, data = weekly_markdown(result, zone, brief=brief), weekly_json(result)
    names = {"report.html": page, "report.md": text, "report.json": data, kept_name(result.figures.period): data}
    write_files(directory, names, "the report")


_STEPS = tuple(minutes * 60 * MICROSECONDS for minutes in (1, 5, 15))
"""The steps of time series. The longest divides every offset of a time zone, so that days of any zone add up from it.
"""
_MOST_STEPS = 120


class WeeklyQuestion(Struct, frozen=True):
    """The period as the operator wrote it, the comparison, and the namespace label that names the owner.

    `previous` is the JSON of an earlier report. Without it, `directory` may hold earlier reports.
    """

    since: str | None = None
    until: str | None = None
    previous: Path | None = None
    directory: Path | None = None
    owner_label: str = OWNER_LABEL
    readiness: bool = False
    """A flag to check the pods against the Pod Security levels."""


def weekly(
    scenario: Scenario, question: WeeklyQuestion, options: Options, progress: Progress, zone: tzinfo = UTC
) -> WeeklyResult:
    """Return the report. Raise ReplayError for unusable input and for a period without events."""
    prepare_workers(options)
    manifests = manifests_of(scenario)
    with opened(scenario, progress, options.fleet) as store:
        scope = scope_of(store, manifests, options.focus)
        span, period = _periods(store, question, zone)
        previous = _before(question, span, period)
        periods = (period.previous, period) if previous.figures is None and previous.in_store else (period,)
        step = next((step for step in _STEPS if period.length // step <= _MOST_STEPS), _STEPS[-1])
        part = WeeklyPart()
        if sides := _sides(manifests):
            task = WeeklyTask(periods, step, sides, question.owner_label, Enforcement.from_scope(scope))
            part = _replayed(store, replace(past_job(store, manifests), within=scope.within), task, options, progress)
        figures = [figures_of(store, scope, part, Slot(i, each, step)) for i, each in enumerate(periods)]
        foreign, rejects = _foreign(store, period, manifests), _rejects(store)
        notes = (*_notes(store, span, period, zone), *options.focus.notes)
        readiness: dict[str, NamespaceReadiness] = {}
        if question.readiness:
            work = ReadinessJob(replace(past_job(store, manifests), within=scope.within), period)
            for each in replay_parts(work, store, options, progress):
                for namespace, own in each.items():
                    readiness.setdefault(namespace, NamespaceReadiness()).add(own)
        refused = refusals(store, periods, manifests, options)
        at_rest = scan_store(store, scenario, manifests, options.focus.namespaces, progress)
    result = WeeklyResult(scenario.name, figures[-1], previous.figures, previous.label)
    if len(figures) > 1:
        result.previous = figures[0]
    _add_sets(result, scenario, manifests)
    _add_replay(result, part, len(periods) - 1)
    result.foreign, result.rejects, result.notes, result.refusals = foreign, rejects, notes, refused
    result.readiness, result.at_rest = readiness, at_rest
    return result


def _replayed(store: Store, job: Job, task: WeeklyTask, options: Options, progress: Progress) -> WeeklyPart:
    """Return all parts of the log, with consequences separated."""
    part_sum = WeeklyPart()
    with (
        WorkerPool(store, lambda: job, options) as worker_pool,
        WorkerPool(store, lambda: past_job(store, task.enforcement.denying()), options) as trial,
    ):
        for part in worker_pool.run(task, [store.part(number) for number in range(store.parts)], progress):
            part_sum.add(part)
        worker_pools = {EffectSide.CANDIDATE: worker_pool, EffectSide.CURRENT: trial}
        part_sum.count_new_denials(consequences_by_side(store, worker_pools, part_sum.divergence, progress), task.step)
    return part_sum


def _periods(store: Store, question: WeeklyQuestion, zone: tzinfo) -> tuple[Period, Period]:
    """Return the log's span and the requested period, both with their last event."""
    first, last = store.sql("select min(stage_time), max(stage_time) from request").row(0)
    first, last = first.replace(tzinfo=UTC), last.replace(tzinfo=UTC)
    span = Period(microseconds(first), microseconds(last) + 1)
    start = microseconds(instant(question.since, last, zone)) if question.since else span.start
    end = microseconds(instant(question.until, last, zone)) if question.until else span.end
    if question.since and not question.until and _is_length(question.since):
        start += 1  # the period ends with the last event, not before it
    log_span = f"the log is from {moment(span.start, zone)} to {moment(span.end, zone)}"
    if start >= end:
        raise ReplayError(f"the period ends before it begins: {log_span}")
    counts_by_step = store.query("period_requests", start=start, end=end, step=_STEPS[0])
    if counts_by_step.is_empty():
        raise AuditLogError(f"no request that admission saw in the period asked for: {log_span}")
    return span, Period(start, end)


def _is_length(text: str) -> bool:
    return text.strip()[-1:].isalpha() and not text.strip().upper().endswith("Z")


class _EarlierPeriod(NamedTuple):
    """The earlier period: its kept figures, or whether the store has its requests."""

    figures: Figures | None
    in_store: bool
    label: str


def _before(question: WeeklyQuestion, span: Period, period: Period) -> _EarlierPeriod:
    """Return the comparison: the named file, the store, or an earlier report."""
    if question.previous is not None:
        figures = read_figures(question.previous)
        if figures.period.end > period.start + period.length // 10:
            raise ReplayError(
                "the earlier report is of no earlier period: name another file", path=str(question.previous)
            )
        return _EarlierPeriod(figures, in_store=False, label=question.previous.name)
    if span.start <= period.previous.start + period.length // 20:
        return _EarlierPeriod(None, in_store=True, label="the same log")
    path = kept_before(question.directory, period) if question.directory else None
    if path is not None:
        return _EarlierPeriod(read_figures(path), in_store=False, label=path.name)
    return _EarlierPeriod(None, in_store=False, label="")


def _sides(manifests: Manifests) -> tuple[EffectSide, ...]:
    """Return the sides whose sets are given."""
    sets_by_side = ((EffectSide.CURRENT, manifests.current), (EffectSide.CANDIDATE, manifests.candidate))
    return tuple(side for side, manifest_set in sets_by_side if manifest_set is not None)


def _foreign(store: Store, period: Period, manifests: Manifests) -> Counter[str]:
    """Return static policies and webhooks in the log that the baseline lacks. Some server had another set in force."""
    if manifests.current is None:
        return Counter()
    own_names = {each.name for each in (*manifests.current.policies, *manifests.current.webhooks)}
    rows = store.query("period_decisions", start=period.start, end=period.end, step=period.length, by_request=False)
    requests_by_policy: Counter[str] = Counter()
    for policy, requests in rows.select("policy", "requests").iter_rows():
        if policy and policy.endswith(STATIC_SUFFIX) and policy not in own_names:
            requests_by_policy[policy] += requests
    return requests_by_policy


def _rejects(store: Store) -> Counter[str]:
    rows = store.sql("select reason, count(*) from reject group by all order by all").iter_rows()
    return Counter({EXPLANATIONS[RejectReason(reason)]: count for reason, count in rows})


def _notes(store: Store, span: Period, period: Period, zone: tzinfo) -> Iterator[str]:
    """Yield notes on what the log does not show of the period."""
    if span.start > period.start + period.length // 20:
        yield f"the log begins only at {moment(span.start, zone)}"
    if span.end < period.end - period.length // 20:
        yield f"the log ends at {moment(span.end, zone)}"
    if not store.sql("select count(*) from request where annotations is not null").row(0)[0]:
        yield "the log has no annotations: audited failures and what webhooks changed are not in it"


def _add_sets(result: WeeklyResult, scenario: Scenario, manifests: Manifests) -> None:
    if manifests.current is not None:
        result.current = set_facts(scenario.current, manifests.current)
    if manifests.candidate is not None:
        result.candidate = set_facts(scenario.candidate, manifests.candidate)


def _add_replay(result: WeeklyResult, part: WeeklyPart, position: int) -> None:
    """Add the replay's results: cells for charts, match with the log, evidence, gaps."""
    result.cells = {key: cell for key, cell in part.effects.cells.items() if key.period == position}
    result.mutations = candidate_mutations(result.cells)
    result.fidelity = merged(witness.fidelity for _, witness in sorted(part.witnesses.items()))
    result.evidence = tuple(
        FileFidelity(Path(file).name, witness.fidelity, witness.first, witness.last)
        for file, witness in sorted(part.witnesses.items())
    )
    result.gaps, result.not_reached = part.gaps, part.not_reached
