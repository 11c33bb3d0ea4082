"""A view as Markdown: no text of a log is markup, wherever it stands."""

from __future__ import annotations

from replay.report.render.document import Column, Document, Listing, Section, Table, Tone
from replay.serve.view import Grid, View, ViewCell, ViewItem, as_markdown, document_csv

HOSTILE = "<b>@team</b> https://x.example\n| $a$ ~b~ [c](d) &amp;"
INERT = r"\<b\>@" + "\u200b" + r"team\</b\> https:" + "\u200b" + r"//x.example \| \$a\$ \~b\~ \[c\](d) \&amp;"


def test_no_text_is_markup() -> None:
    grids = (
        Grid(id="a", title=HOSTILE, columns=(HOSTILE,), rows=((ViewCell(HOSTILE),),)),
        Grid(id="b", title="empty", columns=("a",), rows=(), empty=HOSTILE),
    )
    view = View(
        title=HOSTILE,
        verdict=HOSTILE,
        tone=Tone.BAD,
        facts=(ViewItem(HOSTILE, HOSTILE, HOSTILE),),
        grids=grids,
        data={},
    )
    assert as_markdown(view).splitlines() == [
        f"# {INERT}",
        "",
        INERT,
        "",
        f"- {INERT}: {INERT} ({INERT})",
        "",
        f"## {INERT}",
        "",
        f"| {INERT} |",
        "| --- |",
        f"| {INERT} |",
        "",
        "## empty",
        "",
        INERT,
    ]


def test_the_tables_of_a_document_are_csv() -> None:
    table = Table("t", "", (Column("user"), Column("requests")), (("=cmd()", "1,000"),), total=3)
    document = Document(
        *("title", "subtitle", "verdict", Tone.PLAIN, ()), (Section("s", "S", blocks=(Listing("", "x"), table)),)
    )
    assert document_csv(document).splitlines() == [
        "user,requests",
        '\'=cmd(),"1,000"',
        "and 2 more rows: the JSON form has all,",
    ]
