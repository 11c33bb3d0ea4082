"""Layout of a terminal table: visible columns, widths, line breaks.

No value is dropped, and no identifying value is cut. Numbers keep their width, other values wrap. Optional columns move
below their row first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from replay.report.render.document import Align, Column, Table

GAP = 2
LINES = {Align.TEXT: 8, Align.CODE: 6}
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
    return sum(widths) + GAP * (len(widths) - 1)


def _natural(columns: Sequence[Column], rows: TextCells, shown: Sequence[int]) -> list[int]:
    return [max(cell_len(columns[i].title), *(cell_len(row[i]) for row in rows), 1) for i in shown]


def _comfort(column: Column, *, is_whole: bool) -> int | None:
    """Return the comfortable width of a column; None if it never breaks."""
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
