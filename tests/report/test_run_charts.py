"""The charts of a run: each answers what no table does, or is not drawn."""

from __future__ import annotations

import pytest

from replay.compare.fidelity import Fidelity
from replay.compare.outcome import OutcomeKind
from replay.compare.result import LogFacts, RunResult, SetFacts
from replay.compare.summary import CellKey, Example, Gap, OutcomeFinding, Summary
from replay.report.render.charts import LONGEST, draw, short_labels
from replay.report.run.report import MAX_ROWS, charts

MINUTE = 60_000_000
Found = tuple[OutcomeKind, str, str, int]
"""Outcome, policy, namespace and minute of a finding."""


def result(found: list[Found], minutes: int, *, follows: bool = False) -> RunResult:
    summary = Summary()
    for seq, (kind, policy, namespace, minute) in enumerate(found):
        key = CellKey(kind, (policy,), "ann", namespace, "pods", "Pod", "w", follows=follows)
        example = Example(seq, 0, f"id-{seq}", minute * MINUTE + 30_000_000, "CREATE", "n", ("no",))
        summary.add_finding(OutcomeFinding(key, example))
        if kind is OutcomeKind.UNDETERMINED:
            summary.gaps["candidate", Gap(policy, "object", "no", "")] += 1
    log = LogFacts(("log",), first=0, last=minutes * MINUTE)
    return RunResult(log, SetFacts("current"), SetFacts("candidate"), summary, Fidelity())


DENIED, MUTATED, OPEN = OutcomeKind.NEWLY_DENIED, OutcomeKind.NEWLY_MUTATED, OutcomeKind.UNDETERMINED


@pytest.mark.parametrize(
    ("found", "minutes", "drawn"),
    [
        pytest.param([], 10, [], id="nothing"),
        pytest.param([(DENIED, "p", "a", 3)], 0, [], id="a log of an instant"),
        pytest.param([(DENIED, "p", "a", 3)], 10, ["chart-time"], id="one policy in one namespace is no heat"),
        pytest.param([(DENIED, "p", "a", 3), (DENIED, "p", "b", 3)], 10, ["chart-time"], id="one row is no heat"),
        pytest.param([(DENIED, "p", "a", 3), (DENIED, "q", "b", 3)], 10, ["chart-time", "chart-heat"], id="both"),
        pytest.param([(MUTATED, "p", "a", 3), (OPEN, "q", "b", 3)], 10, ["chart-time"], id="one instant is no growth"),
        pytest.param([(OPEN, "q", "b", 3), (OPEN, "q", "b", 8)], 10, ["chart-undecided"], id="growth alone"),
    ],
)
def test_a_chart_is_drawn_where_it_says_something(found: list[Found], minutes: int, drawn: list[str]) -> None:
    assert [chart.id for chart in charts(result(found, minutes))] == drawn


def test_what_follows_is_in_no_chart() -> None:
    found = [(DENIED, "p", "a", 3), (DENIED, "q", "b", 5), (OPEN, "q", "b", 3), (OPEN, "q", "b", 8)]
    assert charts(result(found, 10, follows=True)) == ()


def test_first_and_last_hit_lie_within_the_time_of_the_log() -> None:
    found = [(DENIED, "p", "a", 2), (DENIED, "p", "a", 7), (DENIED, "q", "a", 5)]
    (chart,) = charts(result(found, 20))
    assert (len(chart.labels), chart.labels[0], chart.labels[-1]) == (21, "00:00", "00:20")
    assert dict(zip(chart.series, zip(chart.spans, chart.notes, strict=True), strict=True)) == {
        "p": ((2.5, 7.5), "00:02:30 to 00:07:30"),
        "q": ((5.5, 5.5), "00:05:30 to 00:05:30"),
    }
    assert chart.series["p"] == tuple(float(i in (2, 7)) for i in range(21))
    assert "First hit 1970-01-01 00:02:30 UTC, last hit 1970-01-01 00:07:30 UTC" in chart.alternative
    assert "00:02:30 to 00:07:30" in draw(chart)


def test_a_long_log_is_told_in_few_steps_and_many_policies_in_few_rows() -> None:
    found = [(DENIED, f"p-{i}", "a" if i % 2 else "b", i * 1000) for i in range(MAX_ROWS + 2)]
    time, heat = charts(result(found, 40 * 1440))
    assert (len(time.labels), len(time.series), len(heat.series)) == (41, MAX_ROWS, MAX_ROWS)
    assert time.alternative.endswith("2 other policies not drawn.")
    assert time.notes[0] == "01-01 00:00 to 01-01 00:00"


def test_what_is_not_decided_adds_up() -> None:
    (chart,) = charts(result([(OPEN, "q", "b", 3), (OPEN, "r", "b", 4), (OPEN, "q", "b", 8)], 9))
    assert chart.series == {"q": (*(0.0,) * 3, *(1.0,) * 5, 2.0, 2.0), "r": (*(0.0,) * 4, *(1.0,) * 6)}
    assert chart.alternative == "2 in the first half of the log, 3 at its end; most by q."


PREFIX = "company-platform-security-baseline-require"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["team-label.static.k8s.io", "admin"], ["team-label", "admin"], id="short"),
        pytest.param(
            [f"{PREFIX}-memory-on-workloads.static.k8s.io", f"{PREFIX}-probe-on-workloads.static.k8s.io", "others"],
            ["…memory…", "…probe…", "others"],
            id="what long ones share",
        ),
        pytest.param(
            [f"{PREFIX}-cpu-limits", f"{PREFIX}-cpu-limits-of-init"],
            ["…limits", "…limits-of-init"],
            id="one is the beginning of another",
        ),
        pytest.param(["a" * 20 + "b" * 20], ["a" * 15 + "…" + "b" * 14], id="one alone"),
    ],
)
def test_labels_stay_apart(names: list[str], expected: list[str]) -> None:
    assert short_labels(names) == expected
    assert all(len(label) <= LONGEST for label in short_labels(names))
