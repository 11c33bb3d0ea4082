"""Charts of a run: first and last hits of each policy, their places, and undetermined requests over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.result import RunResult
from replay.report.render.charts import MAX_SERIES
from replay.report.render.document import MICROSECONDS, Chart, inert, moment, number, plural
from replay.report.run.views import WORDS, CellItems, by_namespace, by_policy, cells_with, direct, grouped

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
        f"{moment(result.log.last)}. {_left(len(groups))}"
    )
    title = f"{WORDS[kind].capitalize()}: first and last hit by policy, UTC"
    return Chart("chart-time", "spans", title, inert(text.strip()), axis.labels, series, spans=spans, notes=notes)


def _left(groups: int) -> str:
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
    text = f"Most in {name} by {policy} ({number(most)}). {_left(len(policies))}"
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
    title = "Not decided, added up over time, UTC"
    return Chart("chart-undecided", "lines", title, inert(text), axis.labels, series)


def _growing(values: Iterable[float]) -> tuple[float, ...]:
    total, totals = 0.0, []
    for value in values:
        total += value
        totals.append(total)
    return tuple(totals)
