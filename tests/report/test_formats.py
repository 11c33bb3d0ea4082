from __future__ import annotations

import io
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from replay.report.render.charts import draw
from replay.report.render.document import (
    Align,
    Chart,
    Column,
    Document,
    Fact,
    Listing,
    Section,
    Table,
    Tone,
    without_empty,
)
from replay.report.render.html import html
from replay.report.render.markdown import markdown
from replay.report.render.terminal import print_document

HOSTILE = '<script>alert(1)</script>"><img src=x> `a|b` [x](http://evil.example) @team $x$ =cmd()'
DOCUMENT = Document(
    title="What would change?",
    subtitle="current → candidate",
    verdict="2 newly denied.",
    tone=Tone.BAD,
    facts=(Fact("Read", "15 events", "1 file"), Fact("Decided", "100 %", "", Tone.GOOD)),
    sections=(
        Section(
            "denied",
            "Newly denied",
            "Requests that the current set admits.",
            (
                Table(
                    "users",
                    "By user",
                    (
                        Column("user", Align.CODE),
                        Column("requests", Align.NUMBER),
                        Column("why"),
                        Column("at", optional=True),
                    ),
                    ((HOSTILE, "2", HOSTILE, "now"), *((f"user-{i}", "1", "m", "now") for i in range(8))),
                    20,
                ),
                Listing("A patch", "```\n<b>"),
                Chart(
                    "spans",
                    "spans",
                    "From to",
                    HOSTILE,
                    ("$a$", "<b>"),
                    {HOSTILE: (2.0, 1.0), "q": (0.0, 1.0)},
                    spans=((0.1, 1.9), (1.5, 1.5)),
                    notes=(HOSTILE, "1"),
                ),
                Chart("lines", "lines", "Over time", "flat", ("1", "2"), {HOSTILE: (1.0, 2.0)}),
                Chart("heat", "heat", "Where", "here", ("n",), {"p": (0.0,), "q": (3.0,)}),
            ),
            Tone.BAD,
        ),
        Section("rest", "Rest", "", (Listing("x", "y"),), quiet=True),
    ),
)


class Page(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")


def test_html_is_self_contained_and_inert() -> None:
    text = html(DOCUMENT)
    page = Page(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert [link for link in page.links if not link.startswith("#")] == []
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert page.tags.count("svg") == 3
    assert "http://evil.example" in text
    assert 'href="http' not in text
    assert "… and 11 more" in text


def test_html_is_a_function_of_the_document() -> None:
    assert html(DOCUMENT) == html(DOCUMENT)


def test_markdown_is_inert_and_brief_is_shorter() -> None:
    text = markdown(DOCUMENT)
    outside_code = re.sub(r"`[^`\n]*`", "", re.sub(r"````.*?````", "", text, flags=re.DOTALL))
    assert not re.search(r"(?<!\\)[<>]|(?<!\\)\[x\]|@team", outside_code)
    assert "````\n```\n<b>\n````" in text
    brief = markdown(DOCUMENT, brief=True)
    assert "… and 15 more." in brief
    assert "## Rest" not in brief
    assert len(brief) < len(text)


def test_terminal_is_as_wide_as_the_terminal() -> None:
    for width in (20, 40, 80, 160):
        out = io.StringIO()
        print_document(DOCUMENT, Console(file=out, width=width), is_whole=False)
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert ("at" in out.getvalue().split("By user")[1].splitlines()[1].split()) == (width >= 80)
        assert "\x1b" not in out.getvalue()


CUT = Table(
    "notes",
    "",
    (Column("what"), Column("number", Align.NUMBER)),
    (("157 of 157 objects that both have are others in the snapshot than in the log: it is of another cluster", ""),),
)
NAMES = Table(
    "names",
    "",
    (Column("policy", Align.CODE), Column("requests", Align.NUMBER), Column("message")),
    tuple((f"memory-{name}.static.k8s.io", "1,000", "all containers need a memory limit") for name in ("cap", "max")),
)


def drawn(table: Table, width: int, *, whole: bool | None = False) -> list[str]:
    out = io.StringIO()
    document = Document("", "", "", Tone.PLAIN, (), (Section("s", "S", "", (table,)),))
    print_document(document, Console(file=out, width=width), is_whole=whole)
    text = out.getvalue()
    return text[text.index("S\n") + 2 :].splitlines()


def test_terminals_break_what_is_too_wide() -> None:
    assert drawn(CUT, 62) == [
        "  what                                                  number",
        "  157 of 157 objects that both have are others in the",
        "  snapshot than in the log: it is of another cluster",
    ]
    assert drawn(NAMES, 50) == [
        "  policy       requests  message",
        "  memory-cap…     1,000  all containers need a",
        "                         memory limit",
        "  memory-max…     1,000  all containers need a",
        "                         memory limit",
    ]


def test_names_are_whole_where_output_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert drawn(NAMES, 50, whole=None) == drawn(NAMES, 50)
    monkeypatch.delenv("COLUMNS")
    assert drawn(NAMES, 40, whole=None) == [
        "  policy                    requests  message",
        "  memory-cap.static.k8s.io     1,000  all containers need a memory",
        "                                      limit",
        "  memory-max.static.k8s.io     1,000  all containers need a memory",
        "                                      limit",
    ]


LOCKOUTS = Table(
    "lockouts",
    "",
    (
        Column("who"),
        Column("user", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("policies", Align.CODE, optional=True),
    ),
    (
        (
            "kube-system service account",
            "system:serviceaccount:kube-system:job-controller",
            "12",
            "a.example, b.example",
        ),
        ("node", "system:node:one", "3", ""),
    ),
    12,
    foot=("all", "", "15", ""),
    rest="7 requests",
)


@pytest.mark.parametrize(
    ("whole", "lines"),
    [
        pytest.param(
            False,
            [
                "  who                          user                           requests",
                "  kube-system service account  system:serviceaccount:               12",
                "                               kube-system:job-controller",
                "    policies: a.example, b.example",
                "  node                         system:node:one                       3",
                "  all                                                               15",
                "  … and 10 more (7 requests)",
            ],
            id="a terminal",
        ),
        pytest.param(
            True,
            [
                "  who                          user                                              requests",
                "  kube-system service account  system:serviceaccount:kube-system:job-controller        12",
                "    policies: a.example, b.example",
                "  node                         system:node:one                                          3",
                "  all                                                                                  15",
                "  … and 10 more (7 requests)",
            ],
            id="a pipe",
        ),
    ],
)
def test_what_finds_no_room_stands_below_its_row(whole: bool, lines: list[str]) -> None:
    assert drawn(LOCKOUTS, 70, whole=whole) == lines


def test_a_terminal_too_narrow_for_a_table_has_a_line_for_each_cell() -> None:
    assert drawn(NAMES, 22) == [
        "  policy: memory-cap…",
        "  requests: 1,000",
        "  message: all",
        "containers need a",
        "memory limit",
        "",
        "  policy: memory-max…",
        "  requests: 1,000",
        "  message: all",
        "containers need a",
        "memory limit",
    ]


def test_a_heat_map_is_strongest_where_most_is_on_any_page() -> None:
    chart = Chart("heat", "heat", "Where", "here", ("n",), {"p": (1.0,), "q": (12_345.0,), "r": (0.0,)})
    svg = draw(chart)
    assert [float(found) for found in re.findall(r"fill-opacity: ([\d.]+)", svg)] == [pytest.approx(0.12, abs=0.01)]
    assert "12k" in svg
    assert ">0<" not in svg


def test_a_column_in_which_no_row_says_anything_is_left_out() -> None:
    assert without_empty(CUT).columns == (Column("what"),)
