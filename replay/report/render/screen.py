"""The first screen of a report: the answer, the most important tables, and the next steps.

It has at most 40 lines of 100 columns. The full report has every table, whole names and whole messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from rich.cells import cell_len

from replay.report.render.columns import GAP, STATIC_SUFFIX, broken, total
from replay.report.render.document import Align, Column, Document, Listing, Section, Table, inert, number

WIDTH, LINES = 100, 40
_INDENT = 2
_FRAME = 3
"""Lines of a section in addition to its rows: an empty one, its title and the column titles."""
_NARROWEST = 10
_FLEXIBLE = (Align.TEXT, Align.CODE, Align.SHORT)


def first_screen(
    document: Document, rows: Mapping[str, int], steps: Sequence[tuple[str, str]], listing: Section | None = None
) -> Document:
    """Return a document with the tables that `rows` names by id, and the next steps.

    `rows` has the largest number of rows of each table. A table loses rows if the screen would have too many lines.
    `steps` are pairs of a command and its purpose. `listing` is a section of preformatted lines after the tables.
    """
    shown = [
        replace(section, lead="", blocks=(block,))
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Table) and block.id in rows and block.rows
    ]
    most = {table.id: min(rows[table.id], len(table.rows)) for section in shown for table in _tables(section)}
    listed = (
        sum(block.text.count("\n") + 1 for block in listing.blocks if isinstance(block, Listing)) + 2 if listing else 0
    )
    spare = LINES - listed - _head_lines(document) - _FRAME * len(shown) - len(steps) - _FRAME + 1
    while sum(most.values()) > spare and max(most.values(), default=1) > 1:
        most[max(most, key=most.__getitem__)] -= 1
    sections = [*(_limited(section, most) for section in shown), *([listing] if listing else [])]
    return replace(document, sections=(*sections, next_steps(steps)), summary=())


def next_steps(steps: Sequence[tuple[str, str]]) -> Section:
    """Return the section with the next steps. `…` in a command stands for the arguments of the current command."""
    edge = max(len(command) for command, _ in steps)
    text = "\n".join(f"{command:<{edge}}  {purpose}" for command, purpose in steps)
    return Section("next", "Next steps", "", (Listing("", text),))


def cut(text: str, most: int) -> str:
    """Return text in one line of at most `most` characters."""
    text = inert(text)
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def part_of(shown: int, count: int) -> str:
    """Return ` (8 of 23)` for the title of a table with a part of its rows; nothing for a whole table."""
    return f" ({number(shown)} of {number(count)})" if count > shown else ""


def _tables(section: Section) -> list[Table]:
    return [block for block in section.blocks if isinstance(block, Table)]


def _head_lines(document: Document) -> int:
    """Return the number of lines of the title, the verdict and the facts."""
    edge = max((cell_len(fact.label) for fact in document.facts), default=0) + GAP
    texts = [f"{fact.value}  {fact.note}" for fact in document.facts]
    lines = sum(len(broken(text, WIDTH - edge, len(text))) for text in texts)
    title = f"{document.title}  {document.subtitle}"
    return lines + 1 + sum(len(broken(text, WIDTH, len(text) or 1)) for text in (title, document.verdict))


def _limited(section: Section, most: Mapping[str, int]) -> Section:
    """Return the section with one line for each row. Its title is the table's caption with the number of rows."""
    (table,) = _tables(section)
    count = max(table.total, len(table.rows))
    kept = [i for i, column in enumerate(table.columns) if not column.optional]
    columns = [table.columns[i] for i in kept]
    cells = [[row[i] for i in kept] for row in table.rows[: most[table.id]]]
    rows = fitted(columns, cells)
    title = f"{table.caption or section.title}{part_of(len(rows), count)}"
    narrow = tuple(replace(each, align=Align.SHORT if each.align in _FLEXIBLE else each.align) for each in columns)
    return replace(section, title=title, blocks=(Table(table.id, "", narrow, rows),))


def fitted(columns: Sequence[Column], cells: list[list[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the rows with the longest cells cut, so that a row takes one line."""
    widths = [max(cell_len(text) for text in (column.title, *each)) for column, each in _by_column(columns, cells)]
    if total(widths) > WIDTH - _INDENT:
        cells = [[text.replace(STATIC_SUFFIX, "…") for text in row] for row in cells]
        widths = [max(cell_len(text) for text in (column.title, *each)) for column, each in _by_column(columns, cells)]
    flexible = [i for i, column in enumerate(columns) if column.align in _FLEXIBLE]
    while total(widths) > WIDTH - _INDENT and flexible:
        widest = max(flexible, key=lambda i: widths[i])
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    return tuple(
        tuple(
            cut(text, width) if i in flexible else text for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )


def _by_column(columns: Sequence[Column], cells: list[list[str]]) -> list[tuple[Column, list[str]]]:
    return [(column, [row[i] for row in cells]) for i, column in enumerate(columns)]
