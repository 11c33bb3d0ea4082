"""A document in the terminal, by rich: as wide as the terminal, plain in a pipe, in colour only if allowed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from replay.report.render.document import Align, Column, Document, Fact, Listing, Section, Table, Tone, inert, number

# Layout of a terminal table: visible columns, widths, line breaks.
# No value is dropped, and no identifying value is cut. Numbers keep their width, other values wrap. Optional columns move below
# their row first.

_GAP = 2
_LINES = {Align.TEXT: 8, Align.CODE: 6}
"""Maximum lines of a cell. Sentences are always shown whole."""
_FLOOR = 12
_COMFORT = {Align.TEXT: 30, Align.CODE: 24}
_WORDS = re.compile(r"\S*\s?")
_PARTS = re.compile(r"[^\s/:@,]*[\s/:@,]?")
_SYLLABLES = re.compile(r"[^\-._]*[\-._]?")
STATIC_SUFFIX = ".static.k8s.io"

TextCells = list[list[str]]


class TableLayout(NamedTuple):
    """Layout of a table: columns with widths, cells of rows and foot, and values below each row."""

    columns: list[Column]
    widths: list[int]
    rows: TextCells
    foot: list[str]
    below: list[str]


def arranged(table: Table, width: int, *, is_whole: bool = False) -> TableLayout:
    """Return the columns that fit into `width`. Other optional columns go below their row.

    `is_whole` never breaks names, for files and pipes.
    """
    shown, below = list(range(len(table.columns))), list[int]()
    rows = [list(row) for row in (*table.rows, *((table.foot,) if table.foot else ()))]
    if total(natural := _natural(table.columns, rows, shown)) > width:
        if not is_whole:
            # Where room is scarce, the ending that every static name has goes first: it tells nothing apart.
            rows = [[_short(text, column) for text, column in zip(row, table.columns, strict=True)] for row in rows]
            natural = _natural(table.columns, rows, shown)
        while total(_comfortable(table.columns, natural, shown, is_whole=is_whole)) > width and (
            spare := _spare(table.columns, shown)
        ):
            below.insert(0, shown.pop(shown.index(spare[-1])))
            natural = _natural(table.columns, rows, shown)
    columns = [table.columns[i] for i in shown]
    cells = [[row[i] for i in shown] for row in rows]
    foot = cells.pop() if table.foot else []
    below_rows = [_below(table.columns, row, below) for row in table.rows]
    return TableLayout(columns, _shared(columns, natural, width, is_whole=is_whole), cells, foot, below_rows)


def _below(columns: Sequence[Column], row: Sequence[str], below: Sequence[int]) -> str:
    """Return the cells that do not fit beside the others, each after the title of its column."""
    return "; ".join(f"{columns[i].title}: {row[i]}" for i in below if row[i])


def _short(text: str, column: Column) -> str:
    return text.replace(STATIC_SUFFIX, "…") if column.align is Align.CODE else text


def _spare(columns: Sequence[Column], shown: Sequence[int]) -> list[int]:
    return [i for i in shown if columns[i].optional]


def total(widths: Sequence[int]) -> int:
    """Return the width of all columns and the gaps between them."""
    return sum(widths) + _GAP * (len(widths) - 1)


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[str]], shown: Sequence[int]) -> list[int]:
    return [max(cell_len(columns[i].title), *(cell_len(row[i]) for row in rows), 1) for i in shown]


def _comfort(column: Column, *, is_whole: bool) -> int | None:
    """Return the comfortable width of a column, or None if it never breaks."""
    return None if is_whole and column.align is not Align.TEXT else _COMFORT.get(column.align)


def _comfortable(
    columns: Sequence[Column], natural: Sequence[int], shown: Sequence[int], *, is_whole: bool
) -> list[int]:
    comfort = (_comfort(columns[i], is_whole=is_whole) for i in shown)
    return [want if least is None else min(want, least) for least, want in zip(comfort, natural, strict=True)]


def _shared(columns: Sequence[Column], natural: Sequence[int], width: int, *, is_whole: bool = False) -> list[int]:
    """Return widths that fit: narrow columns get theirs, the others share the rest."""
    if total(natural) <= width:
        return list(natural)
    widths = dict(enumerate(natural))
    flexible = [i for i, column in enumerate(columns) if _comfort(column, is_whole=is_whole) is not None]
    if not flexible:
        return list(natural)
    room = width - total([0 if i in flexible else want for i, want in enumerate(natural)])
    for place, i in enumerate(sorted(flexible, key=lambda i: natural[i])):
        floor = _COMFORT[Align.TEXT] if is_whole else min(_FLOOR, width // 4)
        share = max(room // (len(flexible) - place), floor)
        widths[i] = min(natural[i], share)
        room -= widths[i]
    return [widths[i] for i in range(len(columns))]


def _pieces(text: str, width: int, ends: Sequence[re.Pattern[str]] = (_WORDS, _PARTS, _SYLLABLES)) -> Iterator[str]:
    """Yield possible line ends: words, parts of a long path or name, syllables."""
    for piece in ends[0].findall(text):
        if cell_len(piece.rstrip()) <= width or len(ends) == 1:
            yield piece
        else:
            yield from _pieces(piece, width, ends[1:])


def broken(text: str, width: int, most: int) -> list[str]:
    """Return the lines of a cell.

    Lines end after words. A word that is too long is broken, first after its punctuation. If there are more than `most`
    lines, the last one ends in an ellipsis.
    """
    lines = [""]
    for piece in _pieces(text, width):
        while cell_len((lines[-1] + piece).rstrip()) > width:
            if lines[-1]:
                lines.append("")
                continue
            head = set_cell_size(piece, width).rstrip() or piece[:1]
            lines[-1], piece = head, piece[len(head) :]  # noqa: PLW2901 - the rest of a word that is too long
        lines[-1] += piece
    lines = [line.rstrip() for line in lines]
    if len(lines) > most:
        last = lines[most - 1]
        lines = [*lines[: most - 1], f"{set_cell_size(last, max(width - 1, 0)).rstrip()}…"]
    return lines


# The first screen of a report: the answer, the most important tables, and the next steps.
# It has at most 40 lines, in a terminal of 80 columns too. The full report has every table, whole names and whole messages.

WIDTH, NARROW, LINES = 100, 80, 40
_NARROWEST = 10
_KEPT = 20
"""Width to which the other columns shrink before the first one does."""
_FLEXIBLE = (Align.TEXT, Align.CODE)
_FURTHER_NAMES = re.compile(r" \+\d+$")


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
    while True:
        # Facts, headings and next steps may wrap, so only the laid-out lines tell how many rows fit.
        sections = (*(_limited(section, most) for section in shown), *([listing] if listing else []), next_steps(steps))
        screen = replace(document, sections=sections, summary=())
        if lines_over(screen) <= 0 or max(most.values(), default=1) <= 1:
            return screen
        most[max(most, key=most.__getitem__)] -= 1


def lines_over(screen: Document) -> int:
    """Return how many lines a screen has more than fit, in a terminal of 80 columns."""
    return len(_document_lines(screen, NARROW, is_whole=False)) - LINES


def next_steps(steps: Sequence[tuple[str, str]]) -> Section:
    """Return the section with the next steps. `…` in a command stands for the arguments of the current command."""
    edge = max(len(command) for command, _ in steps)
    text = "\n".join(f"{command:<{edge}}  {purpose}" for command, purpose in steps)
    return Section("next", "Next steps", "", (Listing("", text),))


def cut(text: str, most: int) -> str:
    """Return text in one line of at most `most` characters. A number of further names at its end, as ` +2`, stays."""
    text = inert(text)
    if len(text) <= most:
        return text
    further = _FURTHER_NAMES.search(text)
    end = further[0] if further else ""
    return f"{text[: max(most - 1 - len(end), 0)].rstrip(' …')}…{end}"


def part_of(shown: int, count: int) -> str:
    """Return ` (8 of 23)` for the title of a table with a part of its rows, or nothing for a whole table."""
    return f" ({number(shown)} of {number(count)})" if count > shown else ""


def _tables(section: Section) -> list[Table]:
    return [block for block in section.blocks if isinstance(block, Table)]


def _limited(section: Section, most: Mapping[str, int]) -> Section:
    """Return the section with one line for each row. Its title is the table's caption with the number of rows."""
    (table,) = _tables(section)
    count = max(table.total, len(table.rows))
    kept = [i for i, column in enumerate(table.columns) if not column.optional]
    columns = [table.columns[i] for i in kept]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows[: most[table.id]])
    title = f"{table.caption or section.title}{part_of(len(rows), count)}"
    return replace(section, title=title, blocks=(Table(table.id, "", tuple(columns), rows, is_one_line=True),))


def _fitted(columns: Sequence[Column], rows: Sequence[tuple[str, ...]], width: int) -> tuple[tuple[str, ...], ...]:
    """Return the rows with the longest cells cut, so that a row takes one line. The same rows if that is impossible."""
    whole, all_columns = tuple(rows), range(len(columns))
    widths = _natural(columns, rows, all_columns)
    if total(widths) > width:
        rows = [tuple(text.replace(STATIC_SUFFIX, "…") for text in row) for row in rows]
        widths = _natural(columns, rows, all_columns)
    flexible = [i for i, column in enumerate(columns) if column.align in _FLEXIBLE]
    while total(widths) > width and flexible:
        # The first column says what a row is about, so the others give up width before it does.
        widest = max(flexible, key=lambda i: (min(widths[i], _KEPT) if not i else widths[i], i))
        if widths[widest] <= _NARROWEST:
            return whole
        widths[widest] -= 1
    return tuple(
        tuple(
            cut(text, most) if i in flexible else text for i, (text, most) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


STYLES = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.WARN: "yellow", Tone.BAD: "bold red"}
INDENT = "  "
_FURTHER = "    "


def stdout_console() -> Console:
    """Return the console of standard output. Files and pipes get the first screen's width, unless `COLUMNS` is set."""
    console = Console(highlight=False)
    if _is_file(console):
        console.width = WIDTH
    return console


def _is_file(console: Console) -> bool:
    return not console.is_terminal and "COLUMNS" not in os.environ


def print_document(document: Document, console: Console, *, is_whole: bool | None = None) -> None:
    """Print the whole document. Lines that are too long are broken.

    `is_whole` keeps names in tables in one piece, so that programs find them. By default it is true if the output is
    not a terminal and `COLUMNS` is not set.
    """
    is_whole = _is_file(console) if is_whole is None else is_whole
    for line in _document_lines(document, console.width, is_whole=is_whole):
        console.print(line, overflow="ignore", no_wrap=True, crop=False)


def _document_lines(document: Document, width: int, *, is_whole: bool) -> list[Text]:
    """Return the lines of a document: title, verdict, facts, sections."""
    title = f"{document.title}  {document.subtitle}"
    parts: list[Text] = _paragraph(title, width, "dim", bold=len(document.title))
    parts += _paragraph(document.verdict, width, STYLES[document.tone] or "bold")
    parts += [Text(), *_facts(document.facts, width)]
    for section in document.sections:
        if section.blocks or section.lead:
            parts += [Text(), *_section(section, width, is_whole=is_whole)]
    return parts


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
    edge = max((cell_len(fact.label) for fact in facts), default=0) + _GAP
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
    if table.is_one_line:
        table = replace(table, rows=_fitted(table.columns, table.rows, min(width, WIDTH) - len(INDENT)))
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
        broken(cell, width, _LINES.get(column.align, 1))
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    lines = []
    for i in range(max(map(len, parts))):
        line = "".join(
            _aligned(part[i] if i < len(part) else "", column, width) + " " * _GAP
            for part, column, width in zip(parts, columns, widths, strict=True)
        )
        lines.append(Text(INDENT + line.rstrip(), style=style))
    return lines


def _aligned(text: str, column: Column, width: int) -> str:
    gap = " " * max(width - cell_len(text), 0)
    return gap + text if column.align is Align.NUMBER else text + gap
