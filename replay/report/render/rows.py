"""Rows of any query as a table, as CSV and as JSON, with hostile text made harmless."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, date, datetime, tzinfo
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from replay.on_demand import pl
from replay.report.render.document import inert, plural

_FORMULA = ("=", "+", "-", "@")
"""Characters that start a formula in a spreadsheet."""


def print_rows(rows: pl.DataFrame, console: Console, zone: tzinfo = UTC) -> None:
    """Print a table. If rows are wider than the terminal, each column is on its own line."""
    names = [inert(name) for name in rows.columns]
    cells = [[inert(_cell_text(value, zone)) for value in row] for row in rows.iter_rows()]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    if sum(widths) + 2 * len(widths) <= console.width:
        _print_table(rows, names, cells, console)
    else:
        _print_records(names, cells, console)
    console.print(Text(plural(rows.height, "row"), style="dim"))


def _print_table(rows: pl.DataFrame, names: list[str], cells: list[list[str]], console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, kind in zip(names, rows.schema.values(), strict=True):
        table.add_column(Text(name), justify="right" if kind.is_numeric() else "left")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _print_records(names: list[str], cells: list[list[str]], console: Console) -> None:
    for row in cells:
        grid = Table.grid(padding=(0, 2))
        for name, cell in zip(names, row, strict=True):
            grid.add_row(Text(name, style="dim"), Text(cell))
        console.print(grid)
        console.print()


def _cell_text(value: Any, zone: tzinfo) -> str:
    """Return a cell for people, with times to the second."""
    if isinstance(value, datetime):
        at = value.replace(tzinfo=value.tzinfo or UTC).astimezone(zone)
        return f"{at:%Y-%m-%d %H:%M:%S} {at.tzname()}"
    return cell_text(value, zone)


def csv_text(rows: pl.DataFrame, zone: tzinfo = UTC) -> str:
    """Return CSV with a header, with control characters escaped.

    A cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(inert, rows.columns))
    for row in rows.iter_rows():
        writer.writerow([_csv_cell(value, zone) for value in row])
    return buffer.getvalue()


def json_text(rows: pl.DataFrame, zone: tzinfo = UTC) -> str:
    """Return a list of objects, one per line."""
    lines = [orjson.dumps(_plain(row, zone)).decode() for row in rows.iter_rows(named=True)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def cell_text(value: Any, zone: tzinfo = UTC) -> str:
    """Return a value as a person reads it. Null is empty."""
    if value is None:
        return ""
    plain = _plain(value, zone)
    return plain if isinstance(plain, str) else orjson.dumps(plain).decode()


def _csv_cell(value: Any, zone: tzinfo) -> str:
    text = inert(cell_text(value, zone))
    return f"'{text}" if not isinstance(value, int | float) and text.startswith(_FORMULA) else text


def _plain(value: Any, zone: tzinfo) -> Any:
    """Return a value as JSON. Times in a store are UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(zone).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _plain(item, zone) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item, zone) for item in value]
    if isinstance(value, bool | int | float | str | type(None)):
        return value if not isinstance(value, int) or abs(value) < 2**53 or isinstance(value, bool) else str(value)
    return str(value)
