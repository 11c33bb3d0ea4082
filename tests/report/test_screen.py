"""The first screen of any report: at most 40 lines, at 80 columns too, rows in one line, and what is left out is counted."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from replay.report.render.document import Align, Column, Document, Fact, Listing, Section, Table, Tone
from replay.report.render.terminal import LINES, NARROW, WIDTH, first_screen, print_document

STEPS = [("replay report … --full", "every table")]


def printed(document: Document, width: int = WIDTH) -> list[str]:
    text = io.StringIO()
    print_document(document, Console(file=text, width=width, highlight=False), is_whole=False)
    return text.getvalue().splitlines()


def table(id_: str, count: int, cell: str, caption: str = "", total: int = 0) -> Table:
    columns = (
        Column("policy", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("last", optional=True),
        Column("message"),
    )
    return Table(id_, caption, columns, tuple((f"{cell}{i}", str(i), "never", cell) for i in range(count)), total)


def document(*tables: Table) -> Document:
    sections = tuple(Section(each.id, f"Title of {each.id}", "A lead.", (each,)) for each in tables)
    return Document("Report", "log", "The answer.", Tone.GOOD, (Fact("Requests", "3", "of 4"),), sections)


HEAD = ["Report  log", "The answer.", "", "Requests  3  of 4", ""]
NEXT = ["", "Next steps", "  replay report … --full  every table"]
SCREENS = [
    (
        "a table without its optional columns and its lead",
        document(table("a", 1, "p")),
        {"a": 3},
        ["Title of a", "  policy  requests  message", "  p0             0  p"],
    ),
    (
        "a limited table says how many rows there are",
        document(table("a", 3, "p")),
        {"a": 2},
        ["Title of a (2 of 3)", "  policy  requests  message", "  p0             0  p", "  p1             1  p"],
    ),
    (
        "rows that the report itself left out are counted",
        document(table("a", 1, "p", total=9)),
        {"a": 2},
        ["Title of a (1 of 9)", "  policy  requests  message", "  p0             0  p"],
    ),
    (
        "a caption names its table",
        document(table("a", 1, "p", "By policy")),
        {"a": 1},
        ["By policy", "  policy  requests  message", "  p0             0  p"],
    ),
    (
        "a table that is not named is not shown",
        document(table("a", 1, "p"), table("b", 1, "q")),
        {"b": 1},
        ["Title of b", "  policy  requests  message", "  q0             0  q"],
    ),
]


@pytest.mark.parametrize(("given", "rows", "lines"), [row[1:] for row in SCREENS], ids=[row[0] for row in SCREENS])
def test_screen(given: Document, rows: dict[str, int], lines: list[str]) -> None:
    assert printed(first_screen(given, rows, STEPS)) == [*HEAD, *lines, *NEXT]


NARROW_SCREENS = [
    (
        "the other columns shrink before the first one",
        60,
        [
            "  policy                       requests  message",
            "  the-first-policy.example.o…        10  the-first-policy.e…",
        ],
    ),
    (
        "where nothing is left to cut, each cell has a line of its own",
        20,
        ["  policy: the-first-", "policy.example.org/", "with-a-name-of-50-", "characters"],
    ),
]


@pytest.mark.parametrize(
    ("width", "lines"), [row[1:] for row in NARROW_SCREENS], ids=[row[0] for row in NARROW_SCREENS]
)
def test_a_row_takes_one_line_of_a_narrow_terminal(width: int, lines: list[str]) -> None:
    name = "the-first-policy.example.org/with-a-name-of-50-characters"
    columns = (Column("policy", Align.CODE), Column("requests", Align.NUMBER), Column("message"))
    made = document(Table("a", "", columns, ((name, "10", name),)))
    shown = printed(first_screen(made, {"a": 1}, STEPS), width)
    start = shown.index("Title of a") + 1
    assert shown[start : start + len(lines)] == lines


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.text(max_size=150), st.integers(1, 40)), max_size=4),
    st.integers(0, 6),
)
def test_every_screen_fits(tables: list[tuple[int, str, int]], listed: int) -> None:
    made = document(*(table(str(i), count, cell) for i, (count, cell, _) in enumerate(tables)))
    listing = (
        Section("listing", "Listing", "", (Listing("", "\n".join("line" for _ in range(listed))),)) if listed else None
    )
    lines = printed(first_screen(made, {str(i): most for i, (*_, most) in enumerate(tables)}, STEPS, listing), NARROW)
    assert len(lines) <= LINES
    assert lines[-2:] == NEXT[1:]
