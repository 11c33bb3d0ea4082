from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.cel.ast.issues import BEFORE_START, NO_OFFSET, Issue, Issues
from replay.cel.ast.source import Source
from replay.cel.ast.tree import Ast, Call, Comprehension, Const, Ident
from replay.cel.check.checker import check
from replay.cel.declare.declarations import STANDARD_LIBRARY
from replay.cel.declare.macros import STANDARD_MACROS, macro_table
from replay.cel.declare.scope import Declarations
from replay.cel.syntax import lexer
from replay.cel.syntax.parser import parse
from replay.cel.syntax.recovery.tree_visitor import parse_with_recovery
from replay.cel.value.values import Uint
from replay.cellib.library.macros import TWO_VARIABLE_MACROS
from replay.cellib.library.optionals import OPTIONAL_MACROS

MACROS = macro_table([*STANDARD_MACROS, *TWO_VARIABLE_MACROS, *OPTIONAL_MACROS])
DECLARATIONS = Declarations([STANDARD_LIBRARY])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x7fffffffffffffff", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("007", 7),
        ("18446744073709551615u", Uint(2**64 - 1)),
        ("0xFFU", Uint(255)),
        ("-1.5e-3", -0.0015),
        (".5", 0.5),
        ("'a\\u00e9\\U0001F600\\x41\\101\\n\\?'", "aé😀AA\n?"),
        ("r'\\n'", "\\n"),
        ('"""a"b\r\nc"""', 'a"b\nc'),
        ("''''''", ""),
        ("b'é\\xff\\377'", b"\xc3\xa9\xff\xff"),
        ("bR'''\\'''", b"\\"),
        ("null", None),
        ("true", True),
    ],
)
def test_literals(text: str, value: object) -> None:
    ast = parse(Source(text), MACROS)
    assert isinstance(ast, Ast)
    assert isinstance(ast.expr, Const)
    assert (type(ast.expr.value), ast.expr.value) == (type(value), value)


def test_a_macro_keeps_its_call() -> None:
    ast = parse(Source("a.all(x, x)"), MACROS)
    assert isinstance(ast, Ast)
    assert isinstance(ast.expr, Comprehension)
    call = Call(0, "all", (Ident(3, "x"), Ident(4, "x")), Ident(1, "a"))
    assert ast.macro_calls == {ast.expr.id: call}
    assert {ast.positions[id_] for id_ in range(5, ast.expr.id + 1)} == {5}


WORDS = st.sampled_from(
    [
        *lexer.LITERALS,
        *(
            "a",
            "b.c",
            "f(",
            ".all(x,",
            "has(",
            "1",
            "2u",
            "3.0",
            "'s'",
            "b'x'",
            "`q`",
            ".?",
            "[?",
            "T{",
            "if",
            "__result__",
        ),
        *("'", '"', "`", "$", "&", "=", "\\", "//c", "\n", "\t", " ", "é", "😀", "\ud800", "0x", "1e", "r'", "\x00"),
    ]
)


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(st.one_of(st.lists(WORDS, max_size=15).map("".join), st.lists(WORDS, max_size=15).map(" ".join), st.text()))
def test_any_text_gives_a_tree_or_issues(text: str) -> None:
    parsed = parse(Source(text), MACROS)
    if isinstance(parsed, Ast):
        parsed = check(parsed, DECLARATIONS)
    if isinstance(parsed, Issues):
        assert parsed.to_display_string().startswith("ERROR: <input>:")


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, max_size=10).map(" ".join))
def test_both_parsers_agree(text: str) -> None:
    fast = parse(Source(text), MACROS)
    if isinstance(fast, Ast):
        slow = parse_with_recovery(Source(text), MACROS, optional_syntax=True)
        assert slow == fast


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
