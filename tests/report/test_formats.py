from __future__ import annotations

import io
import re
from html.parser import HTMLParser

from rich.console import Console

from replay.report.document import Align, Chart, Column, Document, Fact, Listing, Section, Table, Tone
from replay.report.html import html
from replay.report.markdown import markdown
from replay.report.terminal import print_document

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
                Chart("bars", "bars", "By policy", HOSTILE, ("$a$", "<b>"), {"requests": (2.0, 1.0)}),
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
        print_document(DOCUMENT, Console(file=out, width=width))
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert ("at" in out.getvalue().split("By user")[1].splitlines()[1].split()) == (width >= 80)
        assert "\x1b" not in out.getvalue()
