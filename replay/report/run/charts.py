"""The charts of a run: what would be denied by policy, over time, and where."""

from __future__ import annotations

from collections import Counter

from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.compare.summary import Cell, CellKey
from replay.report.render.charts import MAX_SERIES
from replay.report.render.document import Chart, inert, moment, number, plural
from replay.report.run.views import by_namespace, by_policy, by_workload, grouped

MAX_BUCKETS = 60
MAX_BARS = 12
_STEPS = (1, 5, 15, 60, 240, 1440, 10080)
_MINUTE = 60_000_000


def charts(result: RunResult, cells: list[tuple[CellKey, Cell]]) -> tuple[Chart, ...]:
    """Bars by policy, lines over time, heat by namespace and policy, bars by workload: each where it says something."""
    namespaces = grouped(cells, by_namespace)
    drawn = [_policy_bars(cells), _time_lines(result)]
    if len(namespaces) > 1:
        drawn.append(_heat(cells))
    drawn.append(_workload_bars(cells))
    return tuple(chart for chart in drawn if chart is not None)


def _policy_bars(cells: list[tuple[CellKey, Cell]]) -> Chart:
    groups = grouped(cells, by_policy)[:MAX_BARS]
    labels = tuple(inert(group.label) for group in groups)
    top = f"Most by {labels[0]} ({number(groups[0].requests)})."
    values = tuple(float(group.requests) for group in groups)
    return Chart("chart-policies", "bars", "Newly denied requests by policy", top, labels, {"requests": values})


def _workload_bars(cells: list[tuple[CellKey, Cell]]) -> Chart:
    groups = grouped(cells, by_workload)[:MAX_BARS]
    labels = tuple(inert(group.label) for group in groups)
    top = f"{plural(len(groups), 'workload')} shown; most of {labels[0]} ({number(groups[0].requests)})."
    values = tuple(float(group.requests) for group in groups)
    return Chart(
        "chart-workloads", "bars", "Newly denied requests by owning workload", top, labels, {"requests": values}
    )


def _time_lines(result: RunResult) -> Chart | None:
    """Requests by policy in buckets of a round length, at most `MAX_BUCKETS` of them."""
    counts = {
        (minute, policy): count
        for (minute, outcome, policy), count in result.summary.timeline.items()
        if outcome is OutcomeKind.NEWLY_DENIED
    }
    if not counts:
        return None
    first, last = min(minute for minute, _ in counts), max(minute for minute, _ in counts)
    step = next((step for step in _STEPS if (last - first) // step < MAX_BUCKETS), _STEPS[-1])
    start = first - first % step
    length = (last - start) // step + 1
    if length < 2:
        return None
    totals: Counter[str] = Counter()
    for (_, policy), count in counts.items():
        totals[policy] += count
    names = [policy for policy, _ in sorted(totals.items(), key=lambda item: (-item[1], item[0]))][: MAX_SERIES - 1]
    series = {name: [0.0] * length for name in names}
    if len(totals) > len(names):
        series["others"] = [0.0] * length
    for (minute, policy), count in counts.items():
        series[policy if policy in series else "others"][(minute - start) // step] += count
    labels = tuple(_label((start + i * step) * _MINUTE, step) for i in range(length))
    text = f"From {moment(first * _MINUTE)} to {moment(last * _MINUTE)}, in steps of {plural(step, 'minute')}; largest: {names[0]}."
    title = "Newly denied requests over time, UTC"
    return Chart("chart-time", "lines", title, inert(text), labels, {inert(k): tuple(v) for k, v in series.items()})


def _label(microseconds: int, step: int) -> str:
    text = moment(microseconds)
    return text[5:10] if step >= 1440 else text[11:16]


def _heat(cells: list[tuple[CellKey, Cell]]) -> Chart:
    policies = [group.label for group in grouped(cells, by_policy)[:MAX_BARS]]
    shown = set(policies)
    drawn = [(key, cell) for key, cell in cells if not shown.isdisjoint(key.policies)]
    namespaces = [group.label for group in grouped(drawn, by_namespace)[:MAX_BARS]]
    counts: Counter[tuple[str, str]] = Counter()
    for key, cell in cells:
        for policy in key.policies:
            counts[key.namespace or "(cluster)", policy] += cell.count
    (namespace, policy), most = max(counts.items(), key=lambda item: (item[1], item[0]))
    text = inert(f"Most in {namespace} by {policy} ({number(most)}).")
    rows = {inert(p): tuple(float(counts[n, p]) for n in namespaces) for p in policies}
    return Chart("chart-heat", "heat", "Policy by namespace", text, tuple(map(inert, namespaces)), rows)
