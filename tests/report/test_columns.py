from __future__ import annotations

import pytest

from replay.report.render.document import Align, Column, Table
from replay.report.render.terminal import arranged, broken, total

USER = "system:serviceaccount:kube-system:deployment-controller"


@pytest.mark.parametrize(
    ("text", "width", "most", "expected"),
    [
        pytest.param("", 5, 4, [""], id="nothing"),
        pytest.param("all of it", 9, 1, ["all of it"], id="fits"),
        pytest.param("a sentence of words", 10, 4, ["a sentence", "of words"], id="words"),
        pytest.param(USER, 24, 4, ["system:serviceaccount:", "kube-system:", "deployment-controller"], id="parts"),
        pytest.param("memory-limits.example", 10, 4, ["memory-", "limits.", "example"], id="syllables"),
        pytest.param("abcdefgh", 3, 4, ["abc", "def", "gh"], id="nothing to break at"),
        pytest.param("  - indented", 8, 4, ["  -", "indented"], id="an indentation is kept"),
        pytest.param("日本語日本語", 4, 3, ["日本", "語日", "本語"], id="wide characters"),
        pytest.param("one two three four", 5, 2, ["one", "two…"], id="too much ends in an ellipsis"),
    ],
)
def test_broken(text: str, width: int, most: int, expected: list[str]) -> None:
    assert broken(text, width, most) == expected


COLUMNS = (
    Column("policy", Align.CODE),
    Column("requests", Align.NUMBER),
    Column("message"),
    Column("audit id", Align.ID, optional=True),
)
AUDIT_ID = "613dc77c-89c3-49d2-8a05-1f0b7a0ccf3e"
ROW = ("memory-limits.static.k8s.io", "2,513", "all containers need a memory limit", AUDIT_ID)
SHORT = "memory-limits…"


@pytest.mark.parametrize(
    ("width", "titles", "widths", "name"),
    [
        (120, ("policy", "requests", "message", "audit id"), [27, 8, 34, 36], ROW[0]),
        (100, ("policy", "requests", "message", "audit id"), [14, 8, 34, 36], SHORT),
        (80, ("policy", "requests", "message"), [14, 8, 34], SHORT),
        (50, ("policy", "requests", "message"), [14, 8, 24], SHORT),
        (40, ("policy", "requests", "message"), [14, 8, 14], SHORT),
    ],
)
def test_numbers_and_ids_keep_their_width_and_the_optional_give_way(
    width: int, titles: tuple[str, ...], widths: list[int], name: str
) -> None:
    columns, found, rows, _, below = arranged(Table("t", "", COLUMNS, (ROW,)), width)
    assert (tuple(column.title for column in columns), found, rows[0][0]) == (titles, widths, name)
    assert total(found) <= width
    assert below == (["" if len(columns) == 4 else f"audit id: {AUDIT_ID}"])


@pytest.mark.parametrize(
    ("width", "titles", "widths"),
    [
        (120, ("policy", "requests", "message", "audit id"), [27, 8, 34, 36]),
        (80, ("policy", "requests", "message"), [27, 8, 34]),
        (40, ("policy", "requests", "message"), [27, 8, 30]),
    ],
)
def test_names_stay_whole_where_nobody_looks_at_the_width(
    width: int, titles: tuple[str, ...], widths: list[int]
) -> None:
    columns, found, rows, _, below = arranged(Table("t", "", COLUMNS, (ROW,)), width, is_whole=True)
    assert (tuple(column.title for column in columns), found, rows[0][0]) == (titles, widths, ROW[0])
    assert below == (["" if len(columns) == 4 else f"audit id: {AUDIT_ID}"])


def test_the_foot_is_set_as_the_rows_are() -> None:
    table = Table("t", "", COLUMNS, (ROW,), foot=("all", "9,999,999,999", "", ""))
    columns, found, _, foot, _ = arranged(table, 80)
    assert (len(columns), found[1], foot) == (3, 13, ["all", "9,999,999,999", ""])


def test_a_table_without_rows_is_its_titles() -> None:
    assert arranged(Table("t", "", COLUMNS[:2], ()), 80)[1] == [6, 8]
