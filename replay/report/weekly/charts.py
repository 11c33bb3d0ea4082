"""Charts of the weekly report: what admission did over time, and where policies act."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo

from replay.audit.period import Period
from replay.compare.weekly import ActionFigures, EffectAction, EffectSide, Figures, WeeklyResult
from replay.report.render.charts import MAX_SERIES
from replay.report.render.document import MICROSECONDS, Chart, inert, number, plural, zone_name

MAX_BARS = 12
DAY = 86_400 * MICROSECONDS
_STEPS = tuple(minutes * 60 * MICROSECONDS for minutes in (1, 5, 15, 60, 240))


def step_of(figures: Figures) -> int:
    """Return the step of a period: days if it has several, or else the shortest step with few rows."""
    length = figures.period.length
    if length > 3 * DAY:
        return DAY
    return next((step for step in _STEPS if step >= figures.step and length // step < 24), _STEPS[-1])


def by_step(counts: Mapping[int, int], step: int, zone: tzinfo) -> Counter[int]:
    """Return the counts added up to longer steps. Days begin at midnight of the zone."""
    sums: Counter[int] = Counter()
    for start, count in counts.items():
        sums[floor(start, step, zone)] += count
    return sums


def floor(start: int, step: int, zone: tzinfo) -> int:
    """Return the start of the step that contains an instant."""
    if step < DAY:
        return start // step * step
    local = datetime.fromtimestamp(start // MICROSECONDS, tz=zone)
    midnight = datetime(local.year, local.month, local.day, tzinfo=zone)
    return int(midnight.timestamp()) * MICROSECONDS


def starts(period: Period, step: int, zone: tzinfo) -> list[int]:
    """Return the starts of all steps of a period, even of those without requests."""
    at = floor(period.start, step, zone)
    instants = []
    while at < period.end:
        instants.append(at)
        at = _next(at, step, zone)
    return instants


def _next(start: int, step: int, zone: tzinfo) -> int:
    if step < DAY:
        return start + step
    local = datetime.fromtimestamp(start // MICROSECONDS, tz=UTC).astimezone(zone)
    after = datetime(local.year, local.month, local.day, tzinfo=zone) + timedelta(days=1)
    return int(datetime(after.year, after.month, after.day, tzinfo=zone).timestamp()) * MICROSECONDS


def label(start: int, step: int, zone: tzinfo) -> str:
    """Return the label of a step on an axis or in a table."""
    at = datetime.fromtimestamp(start // MICROSECONDS, tz=zone)
    return f"{at:%a %d %b}" if step >= DAY else f"{at:%H:%M}"


def charts(result: WeeklyResult, zone: tzinfo) -> tuple[Chart, ...]:
    """Return the charts that show something."""
    drawn = (time_chart(result.figures, zone), _heat(result))
    return tuple(chart for chart in drawn if chart is not None)


def time_chart(figures: Figures, zone: tzinfo) -> Chart | None:
    """Return the chart of denials, warnings and audited failures by policy over time."""
    step = step_of(figures)
    shown = sorted(
        (each for each in figures.actions if each.action in (EffectAction.DENY, EffectAction.AUDIT, EffectAction.WARN)),
        key=lambda each: (-each.requests, each.policy, each.action),
    )
    points = starts(figures.period, step, zone)
    if not shown or len(points) < 2:
        return None
    top, rest = shown[: MAX_SERIES - 1], shown[MAX_SERIES - 1 :]
    series = {_name(each): _values([each], points, step, zone) for each in top}
    if rest:
        series[f"{len(rest)} others"] = _values(rest, points, step, zone)
    most = top[0]
    text = (
        f"From {label(points[0], step, zone)} to {label(points[-1], step, zone)}, {len(points)} steps. "
        f"Most: {_name(most)} ({number(most.requests)})."
    )
    labels = tuple(label(start, step, zone) for start in points)
    title = f"Denied, warned and audited by policy over time, {zone_name(figures.period.end, zone)}"
    return Chart("chart-time", "lines", title, inert(text), labels, series)


def _name(figures: ActionFigures) -> str:
    words = {EffectAction.DENY: "denied", EffectAction.AUDIT: "audited", EffectAction.WARN: "warned"}
    return inert(f"{figures.policy.removesuffix('.static.k8s.io')}: {words[figures.action]}")


def _values(figures: Iterable[ActionFigures], points: list[int], step: int, zone: tzinfo) -> tuple[float, ...]:
    total: Counter[int] = Counter()
    for each in figures:
        total.update(by_step(each.timeline, step, zone))
    return tuple(float(total[start]) for start in points)


def _would_deny(result: WeeklyResult) -> tuple[str, dict[tuple[str, str, str], int]]:
    """Return title and counts by policy, namespace and workload: of the candidate, else of policies on trial."""
    candidate = {each.policy for each in result.figures.promotions if each.side is EffectSide.CANDIDATE}
    trial = {each.policy for each in result.figures.promotions}
    counts: Counter[tuple[str, str, str]] = Counter()
    for key, cell in result.cells.items():
        if not key.is_root:
            continue
        if candidate:
            is_side = key.side is EffectSide.CANDIDATE and key.action is EffectAction.DENY and key.policy in candidate
        else:
            is_side = key.side is EffectSide.CURRENT and key.action is EffectAction.AUDIT and key.policy in trial
        if is_side:
            counts[key.policy, key.namespace or "(cluster)", key.workload] += cell.count
    return "Requests that enforcing would newly deny", dict(counts)


def _heat(result: WeeklyResult) -> Chart | None:
    title, counts = _would_deny(result)
    policies = _totals(counts, 0)
    shown = policies[:MAX_BARS]
    namespaces = _totals({key: count for key, count in counts.items() if key[0] in shown}, 1)
    if len(namespaces) < 2:
        return None
    cells: Counter[tuple[str, str]] = Counter()
    for (policy, namespace, _), count in counts.items():
        cells[policy, namespace] += count
    (policy, namespace), most = max(cells.items(), key=lambda item: (item[1], item[0]))
    rows = {inert(p): tuple(float(cells[p, n]) for n in namespaces[:MAX_BARS]) for p in shown}
    text = f"{plural(len(policies), 'policy', 'policies')} in {plural(len(namespaces), 'namespace')}; most in {namespace} by {policy} ({number(most)})."
    labels = tuple(map(inert, namespaces[:MAX_BARS]))
    return Chart("chart-heat", "heat", f"{title}, by policy and namespace", inert(text), labels, rows)


def _totals(counts: Mapping[tuple[str, str, str], int], place: int) -> list[str]:
    """Return the names at one place of the keys, those with most requests first."""
    totals: Counter[str] = Counter()
    for key, count in counts.items():
        totals[key[place]] += count
    return sorted(totals, key=lambda name: (-totals[name], name))
