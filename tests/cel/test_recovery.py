"""Messages about what does not parse, compared with those of cel-go (see `data/README.md`)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from replay.cel.ast.issues import Issues
from replay.cel.ast.source import Source
from replay.cel.ast.tree import Ast
from replay.cel.declare.macros import STANDARD_MACROS, macro_table
from replay.cel.syntax.parser import parse
from replay.cellib.library.macros import TWO_VARIABLE_MACROS
from replay.cellib.library.optionals import OPTIONAL_MACROS

MACROS = macro_table([*STANDARD_MACROS, *TWO_VARIABLE_MACROS, *OPTIONAL_MACROS])
CASES = Path(__file__).parents[2].parent / "shared" / "cel" / "kubernetes" / "cases.jsonl.zst"


def shown(text: str) -> str:
    issues = parse(Source(text), MACROS)
    return issues.to_display_string() if isinstance(issues, Issues) else ""


def rows() -> list[Any]:
    text = (Path(__file__).parent / "data" / "syntax_errors.jsonl").read_text(encoding="utf-8")
    return [pytest.param(row, id=repr(row["expr"])) for row in map(json.loads, text.split("\n")[:-1])]


@pytest.mark.parametrize("row", rows())
def test_syntax_errors(row: dict[str, str]) -> None:
    assert shown(row["expr"]) == row["issues"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        pytest.param("(" * 251 + "1" + ")" * 251, "-1:0: expression recursion limit exceeded: 250", id="parentheses"),
        pytest.param("[" * 5000, "-1:0: expression recursion limit exceeded: 250", id="brackets never closed"),
        pytest.param("a" + ".a" * 251, "-1:0: max recursion depth exceeded", id="fields"),
        pytest.param("1" + "+1" * 251, "-1:0: max recursion depth exceeded", id="operators"),
        pytest.param(
            "'" + "a" * 100_000 + "'",
            "-1:0: expression code point size exceeds limit: size: 100002, limit 100000",
            id="length",
        ),
    ],
)
def test_limits(text: str, first: str) -> None:
    assert shown(text) == f"ERROR: <input>:{first}"


@pytest.mark.parametrize(
    ("text", "last"),
    [
        pytest.param("f(1 2)+" * 40, "error recovery attempt limit exceeded: 30", id="recoveries"),
        pytest.param("$ " * 120, "1 more errors were truncated", id="syntax errors"),
        pytest.param("a b" + " c" * 300, "error recovery token lookahead limit exceeded: 256", id="tokens skipped"),
    ],
)
def test_limits_of_recovery(text: str, last: str) -> None:
    assert last in shown(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 249 + "1" + ")" * 249, id="parentheses"),
        pytest.param("a" + ".a" * 250, id="fields"),
        pytest.param("1" + "+1" * 250, id="operators"),
        pytest.param("[" * 100 + "1" + "]" * 100, id="lists"),
        pytest.param("-" * 999 + "1", id="signs"),
        pytest.param(" && ".join(["a"] * 2000), id="a long balanced chain"),
    ],
)
def test_deep_or_long_expressions_within_the_limits(text: str) -> None:
    assert isinstance(parse(Source(text), MACROS), Ast)


def test_optional_syntax_can_be_off() -> None:
    issues = parse(Source("a.?b[?0] == [?c]"), MACROS, optional_syntax=False)
    assert isinstance(issues, Issues)
    assert [issue.message for issue in issues.entries] == [
        "unsupported syntax '.?'",
        "unsupported syntax '[?'",
        "unsupported syntax '?'",
    ]


@pytest.mark.shared
@pytest.mark.skipif(not CASES.exists(), reason="the corpus is not here")
def test_the_corpus_of_a_real_server() -> None:
    cases = subprocess.run(["zstd", "-dc", str(CASES)], capture_output=True, check=True).stdout
    differing: dict[str, str] = {}
    for case in map(json.loads, cases.decode().splitlines()):
        expected = case.get("compile_error", "")
        got = shown(case["expr"])
        if got and expected != f"compilation failed: {got}":
            differing[case["expr"]] = got
        if not got and "Syntax error" in expected:
            differing[case["expr"]] = expected
    assert differing == {}
