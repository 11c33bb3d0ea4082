"""A view of the page is a plain value, which becomes HTML, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from replay.report.render.document import Tone
from replay.report.render.markdown import markdown_text


class Cell(Struct, frozen=True):
    """Text of a table, with a link if `href` is set, or a sparkline of numbers by day."""

    text: str
    href: str = ""
    spark: tuple[int, ...] = ()


class Grid(Struct, frozen=True):
    """A table: `numeric` columns stand right; `empty` is the sentence without rows, `more` the one about rows that are not shown."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: frozenset[int] = frozenset()
    empty: str = "Nothing."
    more: str = ""


class Item(Struct, frozen=True):
    """A fact: its label, value and note."""

    label: str
    value: str
    note: str = ""
    tone: Tone = Tone.PLAIN


class View(Struct, frozen=True):
    """A page: `verdict` answers its question; `data` is its JSON form; `trail` are links to the pages above."""

    title: str
    verdict: str
    tone: Tone
    facts: tuple[Item, ...]
    grids: tuple[Grid, ...]
    data: Mapping[str, Any]
    trail: tuple[Cell, ...] = ()
    links: tuple[Cell, ...] = ()
    accept: Mapping[str, str] | None = None
    """Fields of the form that accepts a finding, None without one."""
    is_working: bool = False
    """Whether the page should be read again soon."""


def as_markdown(view: View) -> str:
    """Return a view as Markdown."""
    lines = [f"# {markdown_text(view.title)}", "", markdown_text(view.verdict), ""]
    lines += [
        f"- {markdown_text(item.label)}: {markdown_text(item.value)}{f' ({markdown_text(item.note)})' if item.note else ''}"
        for item in view.facts
    ]
    for grid in view.grids:
        lines += ["", f"## {markdown_text(grid.title)}", ""]
        if not grid.rows:
            lines.append(markdown_text(grid.empty))
            continue
        lines += [f"| {' | '.join(map(markdown_text, grid.columns))} |", f"|{' --- |' * len(grid.columns)}"]
        lines += [f"| {' | '.join(markdown_text(_cell_text(cell)) for cell in row)} |" for row in grid.rows]
    return "\n".join(lines) + "\n"


def _cell_text(cell: Cell) -> str:
    return cell.text or " ".join(map(str, cell.spark[-7:]))
