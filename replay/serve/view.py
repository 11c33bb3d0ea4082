"""View of a page as a plain value, which is rendered as HTML, Markdown, CSV or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from replay.report.render.document import Document, Table, Tone, number, plural
from replay.report.render.markdown import markdown_text
from replay.report.render.rows import csv_text


class ViewCell(Struct, frozen=True):
    """Cell of a table: text, optionally with a link, or a sparkline of numbers by day."""

    text: str
    href: str = ""
    spark: tuple[int, ...] = ()


MOST_ROWS = 500
"""Maximum number of table rows in HTML and Markdown. CSV and JSON have all rows."""


class Grid(Struct, frozen=True):
    """Table. `numeric` columns are aligned right. `empty` is shown if there are no rows."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[ViewCell, ...], ...]
    numeric: frozenset[int] = frozenset()
    empty: str = "Nothing."

    @property
    def shown(self) -> tuple[tuple[ViewCell, ...], ...]:
        """Rows that a page shows."""
        return self.rows[:MOST_ROWS]

    @property
    def more(self) -> str:
        """Sentence about the rows that a page does not show. It is empty if there are none."""
        count = len(self.rows) - MOST_ROWS
        return f"… and {number(count)} more: see the CSV." if count > 0 else ""


class ViewItem(Struct, frozen=True):
    """A fact: its label, value and note."""

    label: str
    value: str
    note: str = ""
    tone: Tone = Tone.PLAIN


class ViewLine(NamedTuple):
    """Line of a file. `is_cause` marks the line that denies."""

    number: int
    text: str
    is_cause: bool


class Work(NamedTuple):
    """Current work on one trial, or on any trial if the name is empty."""

    text: str
    trial: str = ""


class View(Struct, frozen=True):
    """Page. `verdict` answers its question, `data` is its JSON form, `trail` links to the pages above."""

    title: str
    verdict: str
    tone: Tone
    facts: tuple[ViewItem, ...]
    grids: tuple[Grid, ...]
    data: Mapping[str, Any]
    trail: tuple[ViewCell, ...] = ()
    links: tuple[ViewCell, ...] = ()
    accept: Mapping[str, str] | None = None
    """Fields of the form that accepts a finding, None without one."""
    listing: tuple[ViewLine, ...] = ()
    """Lines of the policy, from the file `place`."""
    place: str = ""
    work: Work | None = None
    """Current work, None for a page that does not show it."""


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
        lines += [f"| {' | '.join(markdown_text(_cell_text(cell)) for cell in row)} |" for row in grid.shown]
        lines += ["", markdown_text(grid.more)] if grid.more else []
    if view.listing:
        lines += ["", f"## {markdown_text(view.place)}", ""]
        lines += [f"    {line.number} {'>' if line.is_cause else ' '} {line.text}" for line in view.listing]
    return "\n".join(lines) + "\n"


def as_csv(view: View) -> str:
    """Return the tables of a view as CSV, one after the other."""
    return _csv((grid.columns, [[*map(_cell_text, row)] for row in grid.rows]) for grid in view.grids)


def document_csv(document: Document) -> str:
    """Return the tables of a document as CSV, one after the other. A last row says how many rows a table leaves out."""
    sections = (*document.summary, *document.sections)
    tables = [block for section in sections for block in section.blocks if isinstance(block, Table)]
    return _csv(
        ([column.title for column in table.columns], [*table.rows, *_more_rows_note(table)]) for table in tables
    )


def _more_rows_note(table: Table) -> Iterator[tuple[str, ...]]:
    if more := max(table.total - len(table.rows), 0):
        yield (f"and {plural(more, 'more row')}: the JSON form has all", *[""] * (len(table.columns) - 1))


def _csv(tables: Iterable[tuple[Sequence[str], Sequence[Sequence[str]]]]) -> str:
    """Return tables as CSV. No cell can be a formula for a spreadsheet."""
    import polars as pl  # noqa: PLC0415 - only this form needs it

    return "\n".join(
        csv_text(pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")) for columns, rows in tables
    )


def _cell_text(cell: ViewCell) -> str:
    return cell.text or " ".join(map(str, cell.spark[-7:]))
