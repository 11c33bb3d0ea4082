"""How a table is set on a terminal: which columns are shown, how wide they are, and where their text is broken.

Nothing that identifies a row is cut: numbers keep their width, the rest is broken onto further lines. Optional columns give way
first, so that the others stay readable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from replay.report.render.document import Align, Column, Table

GAP = 2
LINES = {Align.TEXT: 8, Align.CODE: 6}
"""Lines that a cell may have: sentences are shown whole, values as far as they tell what they are."""
_FLOOR = 12
_COMFORT = {Align.TEXT: 30, Align.CODE: 24}
_WORDS = re.compile(r"\S*\s?")
_PARTS = re.compile(r"[^\s/:@,]*[\s/:@,]?")
_SYLLABLES = re.compile(r"[^\-._]*[\-._]?")
_STATIC = ".static.k8s.io"

Cells = list[list[str]]


def arranged(table: Table, width: int) -> tuple[list[Column], list[int], Cells]:
    """The columns to show, their widths and the cells of the rows, so that they fit into `width` if anything does."""
    shown = list(range(len(table.columns)))
    rows = [list(row) for row in table.rows]
    if total(wanted := _natural(table.columns, rows, shown)) > width:
        # Where room is scarce, the ending that every static name has goes first: it tells nothing apart.
        rows = [[_short(text, column) for text, column in zip(row, table.columns, strict=True)] for row in rows]
        wanted = _natural(table.columns, rows, shown)
        while total(_comfortable(table.columns, wanted, shown)) > width and (spare := _spare(table.columns, shown)):
            shown.remove(spare[-1])
            wanted = _natural(table.columns, rows, shown)
    columns = [table.columns[i] for i in shown]
    return columns, _shared(columns, wanted, width), [[row[i] for i in shown] for row in rows]


def _short(text: str, column: Column) -> str:
    return text.replace(_STATIC, "…") if column.align is Align.CODE else text


def _spare(columns: Sequence[Column], shown: Sequence[int]) -> list[int]:
    return [i for i in shown if columns[i].optional]


def total(widths: Sequence[int]) -> int:
    """The width of all columns and the gaps between them."""
    return sum(widths) + GAP * (len(widths) - 1)


def _natural(columns: Sequence[Column], rows: Cells, shown: Sequence[int]) -> list[int]:
    return [max(cell_len(columns[i].title), *(cell_len(row[i]) for row in rows), 1) for i in shown]


def _comfortable(columns: Sequence[Column], wanted: Sequence[int], shown: Sequence[int]) -> list[int]:
    """Widths at which columns can be read without much breaking."""
    return [min(want, _COMFORT.get(columns[i].align, want)) for i, want in zip(shown, wanted, strict=True)]


def _shared(columns: Sequence[Column], wanted: Sequence[int], width: int) -> list[int]:
    """Widths that fit: columns that want little get it, the others the same share of the rest."""
    if total(wanted) <= width:
        return list(wanted)
    widths = dict(enumerate(wanted))
    flexible = [i for i, column in enumerate(columns) if column.align in _COMFORT]
    if not flexible:
        return list(wanted)
    room = width - total([0 if i in flexible else want for i, want in enumerate(wanted)])
    for place, i in enumerate(sorted(flexible, key=lambda i: wanted[i])):
        share = max(room // (len(flexible) - place), min(_FLOOR, width // 4))
        widths[i] = min(wanted[i], share)
        room -= widths[i]
    return [widths[i] for i in range(len(columns))]


def _pieces(text: str, width: int, ends: Sequence[re.Pattern[str]] = (_WORDS, _PARTS, _SYLLABLES)) -> Iterator[str]:
    """What a line may end with: words, of those too long the parts of a path or name, of those the syllables."""
    for piece in ends[0].findall(text):
        if cell_len(piece.rstrip()) <= width or len(ends) == 1:
            yield piece
        else:
            yield from _pieces(piece, width, ends[1:])


def broken(text: str, width: int, most: int) -> list[str]:
    """The lines of a cell: broken after words, inside a word only where it is too long, and then first after its marks.

    What would need more than `most` lines ends in an ellipsis.
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
