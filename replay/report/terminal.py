"""A document in the terminal, by rich: as wide as the terminal, plain when piped, colour only where allowed."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from replay.report.document import Align, Chart, Column, Document, Fact, Section, Table, Tone

STYLES = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.WARN: "yellow", Tone.BAD: "bold red"}
NARROW = 100
STATIC_SUFFIX = ".static.k8s.io"


def print_document(document: Document, console: Console) -> None:
    """Draw the whole document; what does not fit the width is cut with an ellipsis, never wrapped into noise."""
    console.print(Text(document.title, style="bold"), Text(document.subtitle, style="dim"), sep="  ")
    console.print(Text(document.verdict, style=STYLES[document.tone] or "bold"))
    console.print()
    console.print(_facts(document.facts))
    for section in document.sections:
        if section.blocks or section.lead:
            console.print()
            console.print(_section(section, console.width))


def _facts(facts: tuple[Fact, ...]) -> RenderableType:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for fact in facts:
        value = Text(fact.value, style=STYLES[fact.tone])
        if fact.note:
            value.append(f"  {fact.note}", style="dim")
        grid.add_row(fact.label, value)
    return grid


def _section(section: Section, width: int) -> RenderableType:
    heading = Text(section.title, style=f"bold {STYLES[section.tone]}".strip())
    parts: list[RenderableType] = [heading]
    if section.lead:
        parts.append(Text(section.lead, style="dim"))
    for block in section.blocks:
        if isinstance(block, Table):
            parts.append(_table(block, width))
        elif isinstance(block, Chart):
            continue
        else:
            parts.append(Padding(Group(Text(block.caption, style="dim"), Text(block.text)), (0, 0, 0, 2)))
    return Group(*parts)


def _table(table: Table, width: int) -> RenderableType:
    narrow = width < NARROW
    shown = [i for i, column in enumerate(table.columns) if not (narrow and column.optional)]
    drawn = RichTable(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        title=table.caption,
        title_justify="left",
        title_style="dim italic",
    )
    for i in shown:
        _add_column(drawn, table.columns[i], width, is_last=i == shown[-1])
    for row in table.rows:
        drawn.add_row(*(Text(_short(row[i]) if narrow else row[i]) for i in shown))
    parts: list[RenderableType] = [drawn]
    if table.left_out:
        parts.append(Text(f"… and {table.left_out:,} more", style="dim"))
    return Padding(Group(*parts), (0, 0, 0, 2))


def _short(text: str) -> str:
    """Where columns are scarce, the ending that every static name has goes first."""
    return text.replace(STATIC_SUFFIX, "…") if text.endswith(STATIC_SUFFIX) else text


def _add_column(drawn: RichTable, column: Column, width: int, *, is_last: bool) -> None:
    """Numbers keep their width; no text but the last column's may take so much that others vanish."""
    is_number = column.align is Align.NUMBER
    drawn.add_column(
        column.title,
        justify="right" if is_number else "left",
        no_wrap=True,
        overflow="ellipsis",
        header_style="bold",
        min_width=len(column.title) if is_number else min(8, width // 8),
        max_width=None if is_number or is_last else max(width * 2 // 5, 8),
    )
