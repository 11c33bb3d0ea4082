from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.cel.ast.source import Source
from replay.cel.ast.tree import Ast, Expr
from replay.cel.declare.macros import STANDARD_MACROS, macro_table
from replay.cel.syntax.parser import parse
from replay.cel.syntax.unparse import text_from_value, unparse
from replay.cel.value.values import Uint
from replay.cellib.library.macros import TWO_VARIABLE_MACROS
from replay.cellib.library.optionals import OPTIONAL_MACROS

MACROS = macro_table([*STANDARD_MACROS, *TWO_VARIABLE_MACROS, *OPTIONAL_MACROS])


def parsed(text: str) -> Ast:
    ast = parse(Source(text), MACROS)
    assert isinstance(ast, Ast), ast.to_display_string()
    return ast


def without_ids(node: object) -> object:
    """A tree as nested tuples without its ids; literals keep their type."""
    if isinstance(node, Expr):
        names = type(node).__struct_fields__
        return (type(node).__name__, *(without_ids(getattr(node, name)) for name in names if name != "id"))
    if isinstance(node, tuple):
        return tuple(map(without_ids, node))
    return (type(node).__name__, node)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a&&b&&c&&d", "a && b && c && d"),
        ("a && (b && c)", "a && (b && c)"),
        ("(a && b) && c", "a && b && c"),
        ("a || b && c", "a || b && c"),
        ("(a || b) && c", "(a || b) && c"),
        ("a ? b : c ? d : e", "a ? b : c ? d : e"),
        ("(a ? b : c) ? d : e", "(a ? b : c) ? d : e"),
        ("a - (b - c) - d", "a - (b - c) - d"),
        ("(a + b) * c", "(a + b) * c"),
        ("a == (b == c)", "a == (b == c)"),
        ("- -5", "5"),
        ("-(5)", "-(5)"),
        ("-(-5)", "-(-5)"),
        ("-5.0 + -x", "-5.0 + -x"),
        ("-(0[a])", "-(0[a])"),
        ("-((1.5).f)", "-(1.5.f)"),
        ("-((-0.25).?f)", "-(-0.25.?f)"),
        ("-((-9223372036854775808).f)", "-(-9223372036854775808.f)"),
        ("-((-5).exists(x, x))", "-(-5.exists(x, x))"),
        ("-(12u[a])", "-12u[a]"),
        ("!(5) || !(-5)", "!5 || !-5"),
        ("!(!x)", "!(!x)"),
        ("!!!x", "!x"),
        ("(a + b).c", "(a + b).c"),
        ("a.?b[?c].`d-e`.`in`", "a.?b[?c].`d-e`.`in`"),
        ("has(a.b) && a.all(x, x.map(y, y > 1, y * 2) == [])", "has(a.b) && a.all(x, x.map(y, y > 1, y * 2) == [])"),
        ("{?'a': b, 1: 2,}", '{?"a": b, 1: 2}'),
        (".a.b{?c: 1, `d.e`: [?x,]}", ".a.b{?c: 1, `d.e`: [?x]}"),
        (r"r'\d' + '''a'b''' + b'\x01a'", r'''"\\d" + "a'b" + b"\001\141"'''),
        ("1u + 0x10 + 1e3", "1u + 16 + 1000.0"),
    ],
)
def test_unparse(text: str, written: str) -> None:
    ast = parsed(text)
    assert unparse(ast) == written
    assert without_ids(parsed(written).expr) == without_ids(ast.expr)


def test_a_tree_without_its_macro_calls_has_no_text() -> None:
    ast = parsed("a.all(x, x)")
    with pytest.raises(ValueError, match="no text for Comprehension"):
        unparse(Ast(ast.expr, ast.source, ast.positions))


LITERALS = (None, True, False, 0, -5, 2**63 - 1, -(2**63), Uint(7), 1.5, -0.25, 1e300, "", "é\n\"'\\\0", b"", b"\xff'")


def expression(chance: Random, depth: int) -> str:
    """A well-formed expression; operands stand in parentheses so often that any tree comes up."""

    def part() -> str:
        text = expression(chance, depth - 1)
        return text if chance.random() < 0.2 and " " not in text and not text.startswith(("-", "!")) else f"({text})"

    def parts() -> str:
        return ", ".join([expression(chance, depth - 1) for _ in range(chance.randint(0, 3))])

    if depth == 0:
        return chance.choice([chance.choice(["a", "b", "object", ".c", "x"]), text_from_value(chance.choice(LITERALS))])
    field = chance.choice(["f", "spec", "`a-b/c`", "`in`"])
    forms: list[Callable[[], str]] = [
        lambda: f" {chance.choice(['&&', '||'])} ".join([part() for _ in range(chance.randint(2, 6))]),
        lambda: f"{part()} && {part()} || {part()}",
        lambda: f"{part()} {chance.choice(['+', '-', '*', '/', '%', '<', '==', 'in', '>='])} {part()}",
        lambda: f"{part()} ? {part()} : {expression(chance, depth - 1)}",
        lambda: f"{chance.choice(['!', '-', '--', '!!!'])}{part()}",
        lambda: f"{part()}{chance.choice(['.', '.?'])}{field}",
        lambda: f"{part()}{chance.choice(['[', '[?'])}{expression(chance, depth - 1)}]",
        lambda: f"has({part()}.{field})",
        lambda: f"{part()}.exists(x, {expression(chance, depth - 1)})",
        lambda: f"{part()}.transformMap(i, v, {part()}, {part()})",
        lambda: f"{chance.choice(['f', '.g', 'a.b.f'])}({parts()})",
        lambda: f"[{parts()}]",
        lambda: f"{{{part()}: {part()}, ?{part()}: {part()}}}",
        lambda: f"T.U{{{field}: {part()}, ?{field}: {part()},}}",
    ]
    return chance.choice(forms)()


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 4))
def test_parsing_what_was_written_gives_the_same_tree(chance: Random, depth: int) -> None:
    ast = parsed(expression(chance, depth))
    assert without_ids(parsed(unparse(ast)).expr) == without_ids(ast.expr)
