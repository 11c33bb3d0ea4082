"""Rows of a query in each format, hostile text included."""

from __future__ import annotations

from datetime import datetime
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from rich.console import Console

from replay.report.render.rows import csv_text, json_text, print_rows

CSV = [
    ("a formula", "=1+1", "'=1+1"),
    ("another", "@cmd", "'@cmd"),
    ("a negative number", -1, "-1"),
    ("text like one", "-1", "'-1"),
    ("quotes", 'a,"b"', '"a,""b"""'),
    ("nothing", None, '""'),
    ("control characters", "a\x1b[31m\tb\nc", "a\\u{1b}[31m b⏎c"),
    ("a list", ["a", 1], '"[""a"",""1""]"'),
]


@pytest.mark.parametrize(("value", "cell"), [case[1:] for case in CSV], ids=[case[0] for case in CSV])
def test_csv(value: Any, cell: str) -> None:
    rows = pl.DataFrame({"x": [value]}, strict=False)
    assert csv_text(rows) == f"x\n{cell}\n"


def test_times_and_large_numbers_in_json() -> None:
    rows = pl.DataFrame({"at": [datetime(2026, 1, 1, 12)], "n": [2**60]})  # noqa: DTZ001 - as a store has them
    assert json_text(rows, ZoneInfo("Europe/Berlin")) == f'[\n{{"at":"2026-01-01T13:00:00+01:00","n":"{2**60}"}}\n]\n'


@pytest.mark.parametrize("width", [20, 80])
def test_a_table_is_inert_and_complete(width: int) -> None:
    out = StringIO()
    rows = pl.DataFrame({"name": ["\x1b[31mx", "[red]y"], "long": ["abcdefgh" * 3, "z"]})
    print_rows(rows, Console(file=out, width=width))
    text = out.getvalue()
    assert "\x1b" not in text
    assert "[red]y" in text
    assert "2 rows" in text
    assert "abcdefgh" in text
