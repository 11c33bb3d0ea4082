from __future__ import annotations

import re
from collections import Counter
from datetime import UTC
from io import StringIO
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson
import pytest
from msgspec.structs import replace
from rich.console import Console

from replay.audit.period import Period
from replay.compare.result import SetFacts
from replay.compare.weekly import (
    ActionFigures,
    DenialGroup,
    EffectAction,
    EffectCell,
    EffectKey,
    EffectSide,
    Figures,
    FigureSource,
    Owner,
    PolicyReadiness,
    Promotion,
    WeeklyResult,
)
from replay.errors import ReplayError
from replay.report.render.document import Document, Table
from replay.report.render.html import html
from replay.report.render.markdown import markdown
from replay.report.render.terminal import print_document
from replay.report.weekly.charts import DAY, floor, label, starts, step_of
from replay.report.weekly.json import kept_before, kept_name, read_figures, weekly_json
from replay.report.weekly.report import weekly_document
from replay.report.weekly.sections import change, some, talks

MONDAY = 1_794_787_200_000_000  # 2026-11-16T00:00:00Z
HOUR = DAY // 24
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202e|`=1+1"

FIGURES = Figures(
    Period(MONDAY, MONDAY + 7 * DAY),
    HOUR // 4,
    {MONDAY: 90, MONDAY + 30 * HOUR: 10},
    (
        ActionFigures("p.static.k8s.io", EffectAction.DENY, FigureSource.LOG, 3, 2, 1, MONDAY, MONDAY + HOUR, {MONDAY: 3}),
        ActionFigures(HOSTILE, EffectAction.WARN, FigureSource.REPLAY, 2, 1, 1, MONDAY, MONDAY, {MONDAY + 30 * HOUR: 2}),
    ),
    (
        Promotion("ready", EffectSide.CANDIDATE, "not there", 40),
        Promotion(
            "strict", EffectSide.CURRENT, "audits", 50, 9, 2, 0, 2, 1, 2, MONDAY, (4, 1), "no", "id",
            (Owner("blue", "web", "Deployment/a", ("ann", "bob"), 4, MONDAY), Owner("", "x", HOSTILE, ("eve",), 1, MONDAY)), 2,
        ),
    ),
    frozenset({DenialGroup("p.static.k8s.io", "ann", "web")}),
    frozenset({"ann", "system:node:n1"}),
    frozenset({"web"}),
)  # fmt: skip
CELLS = {
    EffectKey(
        0, EffectSide.CANDIDATE, EffectAction.DENY, "ready", "u", ns, "pods", HOSTILE, denied=False, owner=""
    ): EffectCell(2, MONDAY, MONDAY, "id", "m")
    for ns in ("a", "b")
}


def result(previous: Figures | None = None) -> WeeklyResult:
    return WeeklyResult(
        "audit.jsonl", FIGURES, previous, "last week" if previous else "", SetFacts("now"), SetFacts("next"), CELLS,
        foreign=Counter({"other.static.k8s.io": 2}),
    )  # fmt: skip


def table(document: Document, name: str) -> Table:
    return next(b for s in document.sections for b in s.blocks if isinstance(b, Table) and b.id == name)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        (5, None, ""),
        (0, 0, "as before"),
        (7, 7, "as before"),
        (4, 0, "new"),
        (0, 4, "\u22124 (\u2212100 %)"),
        (1500, 1000, "+500 (+50 %)"),
    ],
)
def test_change(now: int, before: int | None, expected: str) -> None:
    assert change(now, before) == expected


@pytest.mark.parametrize(
    ("promotion", "expected"),
    [
        (Promotion("p", EffectSide.CURRENT, "audits", 9), PolicyReadiness.READY),
        (Promotion("p", EffectSide.CURRENT, "audits", 9, requests=2, denied_anyway=2), PolicyReadiness.READY),
        (
            Promotion("p", EffectSide.CURRENT, "audits", 9, requests=2, denied_anyway=1, undecided=1),
            PolicyReadiness.DENIES,
        ),
        (Promotion("p", EffectSide.CURRENT, "audits", 9, undecided=1), PolicyReadiness.UNDECIDED),
        (Promotion("p", EffectSide.CURRENT, "audits", 0), PolicyReadiness.NOT_ASKED),
    ],
)
def test_readiness_is_claimed_only_where_every_request_was_decided(
    promotion: Promotion, expected: PolicyReadiness
) -> None:
    assert promotion.readiness is expected


def test_whom_to_talk_to_is_the_owner_or_else_the_sender() -> None:
    owners = (
        Owner("blue", "a", "Deployment/x", ("ann",), 3, 5),
        Owner("blue", "b", "Deployment/y", ("bob", "ann"), 2, 9),
        Owner("", "c", "Pod/z", ("eve",), 1, 1),
    )
    found = talks(Promotion("p", EffectSide.CANDIDATE, "", 9, owners=owners))
    assert [(t.owner, t.requests, t.namespaces, t.users, t.last) for t in found] == [
        ("blue", 5, ("a", "b"), ("ann", "bob"), 9),
        ("", 1, ("c",), ("eve",), 1),
    ]
    assert some(("a", "b", "c", "d", "e")) == "a, b, c and 2 more"


def test_days_begin_at_midnight_of_the_zone_and_follow_its_clock() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert floor(MONDAY + 5 * HOUR, DAY, UTC) == MONDAY
    assert floor(MONDAY + 5 * HOUR, DAY, berlin) == MONDAY - HOUR
    autumn = Period(
        1_792_836_000_000_000, 1_792_836_000_000_000 + 3 * DAY
    )  # 2026-10-24T12:00 in Berlin, clocks go back at night
    assert [label(at, DAY, berlin) for at in starts(autumn, DAY, berlin)] == [
        "Sat 24 Oct", "Sun 25 Oct", "Mon 26 Oct", "Tue 27 Oct",
    ]  # fmt: skip
    assert step_of(FIGURES) == DAY


def test_what_can_be_enforced_stands_first_and_trends_need_an_earlier_period() -> None:
    alone = weekly_document(result())
    assert [row[:5] for row in table(alone, "promotions").rows] == [
        ("ready", "can be enforced", "0", "0", ""),
        ("strict", "would deny", "5", "2", "falls: 4, then 1"),
    ]
    before = replace(
        FIGURES,
        promotions=(replace(FIGURES.promotions[1], requests=12),),
        denials=frozenset(),
        users=frozenset({"ann", "gone"}),
    )
    compared = weekly_document(result(before))
    assert [row[4] for row in table(compared, "promotions").rows] == ["", "\u22123 (\u221238 %)"]
    assert table(compared, "first-seen").rows == (
        ("denial", "p.static.k8s.io", "ann in web"),
        ("user", "system:node:n1", ""),
    )
    assert table(compared, "gone").rows == (("user", "gone", ""),)
    assert [row[1] for row in table(alone, "by-day").rows] == ["90", "10", "0", "0", "0", "0", "0"]


def test_every_format_is_inert_and_a_function_of_the_result() -> None:
    document = weekly_document(result(FIGURES), with_charts=True)
    page, text = html(document), markdown(document)
    assert page == html(weekly_document(result(FIGURES), with_charts=True))
    assert "<img" not in page
    assert page.count("<svg") == 2
    for each in (page, text):
        assert "\x1b" not in each
        assert "\u202e" not in each
    assert len(markdown(document, brief=True)) < len(text)


def test_figures_survive_their_json(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(weekly_json(result()), encoding="utf-8")
    assert read_figures(path) == FIGURES


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "no JSON: give the report.json of an earlier `replay report`"),
        (b"[]", "no weekly report: give the report.json of an earlier `replay report`"),
        (b'{"kind": "replay weekly report", "version": 9}', "the report has version 9, this replay reads 1"),
        (b'{"kind": "replay weekly report", "version": 1, "period": 3}', "a damaged report: give another one"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ReplayError) as raised:
        read_figures(path)
    assert str(raised.value) == f"{path}: {message}"


def test_the_newest_kept_report_that_ends_before_the_period_is_compared_with(tmp_path: Path) -> None:
    assert kept_before(tmp_path / "none", FIGURES.period) is None
    for weeks in (-2, -1, 0):
        (tmp_path / kept_name(Period(0, MONDAY + weeks * 7 * DAY))).write_text("{}")
    (tmp_path / kept_name(FIGURES.period)).write_text("{}")
    found = kept_before(tmp_path, FIGURES.period)
    assert found is not None
    assert found.name == "report-20261116T000000Z.json"


def test_the_documented_fields_are_those_that_are_written() -> None:
    readme = (Path(__file__).parents[2] / "reports" / "README.md").read_text(encoding="utf-8")
    report, _, promotion = readme.partition("## The JSON of `replay report`")[2].partition("An entry of `promotions`")
    written = orjson.loads(weekly_json(result()))
    assert _documented(report) - {"workspaces", "atRest"} == set(written)
    assert _documented(promotion) == set(written["promotions"][0])


def _documented(text: str) -> set[str]:
    """The fields in the first column of the tables of a text."""
    cells = (line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(
    ("first", "expected"),
    [(MONDAY, ["falls: 4, then 1"]), (MONDAY + DAY, [])],
    ids=["the log holds the period", "the log begins later"],
)
def test_halves_are_compared_only_where_the_log_holds_both(first: int, expected: list[str]) -> None:
    figures = replace(FIGURES, steps={first: 90, MONDAY + 30 * HOUR: 10})
    promotions = table(weekly_document(replace(result(), figures=figures)), "promotions")
    assert [cell for row in promotions.rows for cell in row if "then" in cell] == expected
    assert ("trend" in [column.title for column in promotions.columns]) == bool(expected)


def test_a_report_without_any_finding_has_no_empty_table() -> None:
    quiet = replace(FIGURES, actions=())
    document = weekly_document(WeeklyResult("audit.jsonl", quiet, None, "", SetFacts("now"), SetFacts("next"), {}))
    tables = [block for section in document.sections for block in section.blocks if isinstance(block, Table)]
    assert "by-policy" not in [each.id for each in tables]
    assert all(each.columns for each in tables)
    out = StringIO()
    print_document(document, Console(file=out, width=80))
    assert "What admission did" in out.getvalue()
