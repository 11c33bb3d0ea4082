"""A document in the terminal, by rich: as wide as the terminal, plain in a pipe, in colour only if allowed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from replay.report.render.columns import GAP, LINES, arranged, broken, total
from replay.report.render.document import Align, Column, Document, Fact, Listing, Section, Table, Tone

STYLES = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.WARN: "yellow", Tone.BAD: "bold red"}
INDENT = "  "
_FURTHER = "    "


def print_document(document: Document, console: Console, *, is_whole: bool | None = None) -> None:
    """Print the whole document. Lines that are too long are broken.

    `is_whole` keeps names in tables in one piece, so that programs find them. By default it is true if the output is
    not a terminal and `COLUMNS` is not set.
    """
    width = console.width
    is_whole = (not console.is_terminal and "COLUMNS" not in os.environ) if is_whole is None else is_whole
    title = f"{document.title}  {document.subtitle}"
    parts: list[Text] = _paragraph(title, width, "dim", bold=len(document.title))
    parts += _paragraph(document.verdict, width, STYLES[document.tone] or "bold")
    parts += [Text(), *_facts(document.facts, width)]
    for section in document.sections:
        if section.blocks or section.lead:
            parts += [Text(), *_section(section, width, is_whole=is_whole)]
    for line in parts:
        console.print(line, overflow="ignore", no_wrap=True, crop=False)


def _paragraph(text: str, width: int, style: str, *, bold: int = 0) -> list[Text]:
    """Return the lines of a sentence, with its first `bold` characters bold."""
    lines = []
    for line in broken(text, width, len(text) or 1):
        lines.append(Text(line, style=style))
        lines[-1].stylize("not dim bold", 0, max(bold, 0))
        bold -= len(line) + 1
    return lines


def _facts(facts: tuple[Fact, ...], width: int) -> list[Text]:
    """Return the lines of the facts: label, number and note, with aligned values."""
    lines = []
    edge = max((cell_len(fact.label) for fact in facts), default=0) + GAP
    for fact in facts:
        text = f"{fact.value}  {fact.note}" if fact.note else fact.value
        rest = len(fact.value)
        for i, part in enumerate(broken(text, max(width - edge, 1), len(text) or 1)):
            label = fact.label if not i else ""
            line = Text(label + " " * (edge - cell_len(label)), style="dim")
            line.append(part[: max(rest, 0)], style=f"not dim {STYLES[fact.tone]}".strip())
            line.append(part[max(rest, 0) :])
            rest -= len(part) + 1
            lines.append(line)
    return lines


def _section(section: Section, width: int, *, is_whole: bool) -> list[Text]:
    lines = _paragraph(section.title, width, f"bold {STYLES[section.tone]}".strip())
    if section.lead:
        lines += _paragraph(section.lead, width, "dim")
    for block in section.blocks:
        if isinstance(block, Table):
            lines += _table(block, width, is_whole=is_whole)
        elif isinstance(block, Listing):
            lines += _listing(block, width)
    return lines


def _table(table: Table, width: int, *, is_whole: bool) -> list[Text]:
    """Return the lines of a table, without trailing spaces, so that they can be copied and compared."""
    room = width - len(INDENT)
    columns, widths, rows, foot, below = arranged(table, room, is_whole=is_whole)
    lines = [Text(INDENT + table.caption, style="dim italic")] if table.caption else []
    if total(widths) > room and not is_whole:
        lines += _records([*rows, *([foot] if foot else [])], columns, width)
    else:
        lines += _row([column.title for column in columns], columns, widths, "bold")
        for row, more in zip(rows, below, strict=True):
            lines += _row(row, columns, widths, "")
            lines += _indented(more, width, is_whole=is_whole)
        if foot:
            lines += _row(foot, columns, widths, "bold")
    return [*lines, *_indented(table.more, width, is_whole=is_whole, indent=INDENT)]


def _indented(text: str, width: int, *, is_whole: bool, indent: str = _FURTHER) -> list[Text]:
    """Return dim lines, or one line if names are kept whole. Empty text has none."""
    room = max(width - len(indent), 1)
    parts = [text] if is_whole else broken(text, room, len(text))
    return [Text(indent + part, style="dim") for part in parts] if text else []


def _records(rows: Sequence[Sequence[str]], columns: Sequence[Column], width: int) -> list[Text]:
    """Return one line per cell with its column's title, for very narrow terminals."""
    lines: list[Text] = []
    for row in rows:
        for cell, column in zip(row, columns, strict=True):
            text = f"{INDENT}{column.title}: "
            first, *rest = broken(text + cell, width, len(text + cell))
            lines.append(Text(first))
            lines[-1].stylize("dim", 0, len(text))
            lines += [Text(part) for part in rest]
        lines.append(Text())
    return lines[:-1]


def _listing(listing: Listing, width: int) -> list[Text]:
    """Return text unchanged. Long lines wrap with indentation."""
    lines = _indented(listing.caption, width, is_whole=False, indent=INDENT)
    for line in listing.text.split("\n"):
        start = line[: len(line) - len(line.lstrip(" "))][: width // 2]
        further = INDENT + start + _FURTHER
        parts = broken(line[len(start) :], max(width - len(further), 8), len(line) or 1)
        if cell_len(INDENT + line) <= width:
            parts = [line[len(start) :]]
        lines += [Text((further if i else INDENT + start) + part) for i, part in enumerate(parts)]
    return lines


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], style: str) -> list[Text]:
    """Return one row, with as many lines as its longest cell."""
    parts = [
        broken(cell, width, LINES.get(column.align, 1))
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    lines = []
    for i in range(max(map(len, parts))):
        line = "".join(
            _placed(part[i] if i < len(part) else "", column, width) + " " * GAP
            for part, column, width in zip(parts, columns, widths, strict=True)
        )
        lines.append(Text(INDENT + line.rstrip(), style=style))
    return lines


def _placed(text: str, column: Column, width: int) -> str:
    gap = " " * max(width - cell_len(text), 0)
    return gap + text if column.align is Align.NUMBER else text + gap
