"""A document as GitHub-flavoured Markdown, suitable for a pull request comment."""

from __future__ import annotations

import re
from html import escape

from msgspec.structs import replace

from replay.report.render.document import Align, Chart, Document, Listing, Section, Table, Tone

_MARKS = {Tone.PLAIN: "", Tone.GOOD: "✅ ", Tone.WARN: "⚠️ ", Tone.BAD: "⛔ "}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!@$&])")
BRIEF_ROWS = 5


def markdown(document: Document, *, brief: bool = False) -> str:
    """Return the document as Markdown. `brief` keeps the verdict, the facts and the first rows of important sections."""
    lines = [f"# {markdown_text(document.title)}", "", markdown_text(document.subtitle), ""]
    lines += [f"**{_MARKS[document.tone]}{markdown_text(document.verdict)}**", ""]
    for fact in document.facts:
        note = f" ({markdown_text(fact.note)})" if fact.note else ""
        lines.append(f"- {markdown_text(fact.label)}: {_MARKS[fact.tone]}**{markdown_text(fact.value)}**{note}")
    for section in (*document.summary, *document.sections):
        if brief and section.quiet:
            continue
        lines += ["", *_section(section, brief=brief)]
    return "\n".join(lines) + "\n"


def comment(document: Document, most: int) -> str:
    """Return the document as a comment of at most `most` bytes. Sections are collapsed, and the rest is counted."""
    lines = [f"### {_MARKS[document.tone]}{markdown_text(document.title)}", "", markdown_text(document.subtitle), ""]
    lines += [f"**{markdown_text(document.verdict)}**", ""]
    for fact in document.facts:
        note = f" ({markdown_text(fact.note)})" if fact.note else ""
        lines.append(f"- {markdown_text(fact.label)}: {_MARKS[fact.tone]}**{markdown_text(fact.value)}**{note}")
    text = "\n".join(lines) + "\n"
    room = most - len(_more_text(len(document.sections)).encode())
    for number, section in enumerate(document.sections):
        part = _collapsed(section)
        room -= len((part if number else text + part).encode())
        if room < 0:
            return text + _more_text(len(document.sections) - number)
        text += part
    return text


def _more_text(count: int) -> str:
    return f"\n… and {count:,} more parts, which have no room in a comment.\n"


def _collapsed(section: Section) -> str:
    """Return a collapsed section. Its summary is HTML."""
    summary = escape(section.title).replace("@", "@\u200b").replace("://", ":\u200b//").replace("\n", " ")
    lines = _section(section, brief=False)[1:]
    return "\n".join(["", f"<details><summary>{_MARKS[section.tone]}{summary}</summary>", *lines, "", "</details>", ""])


def _section(section: Section, *, brief: bool) -> list[str]:
    lines = [f"## {_MARKS[section.tone]}{markdown_text(section.title)}"]
    if section.lead:
        lines += ["", markdown_text(section.lead)]
    for block in section.blocks[:1] if brief else section.blocks:
        lines.append("")
        if isinstance(block, Table):
            lines += _table(block, brief=brief)
        elif isinstance(block, Listing):
            lines += _listing(block)
        elif isinstance(block, Chart):
            lines.append(f"*{markdown_text(block.title)}.* {markdown_text(block.alternative)}")
    return lines


def _table(table: Table, *, brief: bool) -> list[str]:
    rows = table.rows[:BRIEF_ROWS] if brief else table.rows
    lines = [f"**{markdown_text(table.caption)}**", ""] if table.caption else []
    lines.append("| " + " | ".join(markdown_text(column.title) for column in table.columns) + " |")
    lines.append("| " + " | ".join("---:" if c.align is Align.NUMBER else "---" for c in table.columns) + " |")
    lines += [
        "| "
        + " | ".join(
            _code(cell) if column.align in (Align.CODE, Align.ID) else markdown_text(cell)
            for column, cell in zip(table.columns, row, strict=True)
        )
        + " |"
        for row in rows
    ]
    if table.foot:
        lines.append("| " + " | ".join(f"**{markdown_text(cell)}**" if cell else "" for cell in table.foot) + " |")
    cut = (
        table
        if len(rows) == len(table.rows)
        else replace(table, rows=rows, rest="", total=max(table.total, len(table.rows)))
    )
    return [*lines, "", f"{cut.more}."] if cut.more else lines


def _listing(listing: Listing) -> list[str]:
    """Return preformatted text in a fence that is longer than any run of backticks in it, so that it cannot end the fence."""
    longest = max((len(run) for run in re.findall(r"`+", listing.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [markdown_text(listing.caption), "", fence, listing.text, fence]


def markdown_text(text: str) -> str:
    """Return text that Markdown shows literally: no links, mentions, images, HTML or emphasis."""
    return _SPECIAL.sub(r"\\\1", text).replace("://", ":\u200b//").replace("\n", " ").replace("\\@", "@\u200b")


def _code(text: str) -> str:
    """Return code for a table cell. A backtick or a bar inside would end it, so both are replaced."""
    if not text:
        return ""
    return "`" + text.replace("`", "\u02cb").replace("|", "\\|").replace("\n", " ") + "`"
