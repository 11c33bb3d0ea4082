from __future__ import annotations

import pytest

from replay.cel.ast.issues import BEFORE_START, NO_OFFSET, Issue, Issues
from replay.cel.ast.source import Source


@pytest.mark.parametrize(
    ("text", "offset", "shown"),
    [
        pytest.param("abc", 1, "ERROR: <input>:1:2: m\n | abc\n | .^", id="a place"),
        pytest.param("a\n\tbc", 3, "ERROR: <input>:2:2: m\n |  bc\n | .^", id="a tab is one space"),
        pytest.param("日本x", 1, "ERROR: <input>:1:2: m\n | 日本x\n | ．＾", id="wide characters"),  # noqa: RUF001
        pytest.param("abc", 3, "ERROR: <input>:1:4: m\n | abc\n | ...^", id="the end"),
        pytest.param("abc", NO_OFFSET, "ERROR: <input>:-1:0: m", id="the whole expression"),
        pytest.param("abc", BEFORE_START, "ERROR: <input>:1:0: m\n | abc\n | ^", id="made up by recovery"),
        pytest.param("", 0, "ERROR: <input>:1:1: m", id="no text"),
        pytest.param("a" * 16385, 0, "ERROR: <input>:1:1: m", id="a line too long to be shown"),
    ],
)
def test_display(text: str, offset: int, shown: str) -> None:
    assert Issue(0, offset, "m").to_display_string(Source(text)) == shown


def test_issues_are_shown_by_place() -> None:
    issues = Issues(Source("ab"))
    issues.report(2, 1, "second")
    issues.report(1, 0, "first")
    issues.report(3, 0, "after first")
    shown = [line for line in issues.to_display_string().split("\n") if line.startswith("ERROR")]
    assert shown == [
        "ERROR: <input>:1:1: first",
        "ERROR: <input>:1:1: after first",
        "ERROR: <input>:1:2: second",
    ]
