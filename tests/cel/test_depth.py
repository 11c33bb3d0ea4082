"""Every deep shape that an author can write: as deep as the server takes it, and refused in its words beyond."""

from __future__ import annotations

import pytest

from replay.cel.ast.issues import Issues
from replay.cel.declare.library import Library, VariableDecl
from replay.cel.env import Env
from replay.cel.strict.folding import PlanError
from replay.cel.value.types import DYN
from replay.cellib.library.macros import TWO_VARIABLE_COMPREHENSIONS
from replay.cellib.library.optionals import OPTIONALS
from replay.cellib.library.strings import STRINGS

ENV = Env(
    [OPTIONALS, STRINGS, TWO_VARIABLE_COMPREHENSIONS, Library("x", variables=(VariableDecl("object", DYN),))],
)
TOO_DEEP = "max recursion depth exceeded"
TOO_NESTED = "expression recursion limit exceeded: 250"

CHAINS = {
    "field": ("object", ".a", ""),
    "index": ("object", '["a"]', ""),
    "index of a list": ("object", "[0]", ""),
    "optional field": ("object", ".?a", ""),
    "optional index": ("object", '[?"a"]', ""),
    "call": ("'a'", ".trim()", ""),
    "macro": ("[1]", ".map(x, x)", ""),
    "sum": ("1", " + 1", ""),
    "comparison": ("true", " == true", ""),
}
"""Chains: the first part, and what is repeated."""

NESTED = {
    "list": ("[", "1", "]"),
    "map": ("{1: ", "1", "}"),
    "parentheses": ("(", "1", ")"),
    "index in an index": ("object[", "1", "]"),
    "argument": ("dyn(", "1", ")"),
    "ternary": ("true ? 1 : ", "1", ""),
    "macro": ("[1].map(x, ", "1", ")"),
    "bound": ("[1].all(x, ", "true", ")"),
}
"""Nests: what opens, what stands inside, and what closes."""

FLAT = {
    "and": " && ".join(["true"] * 9000),
    "or": " || ".join(["false"] * 9000),
    "list": f"[{', '.join(['1'] * 9000)}]",
    "map": f"{{{', '.join(f'{key}: 1' for key in range(5000))}}}",
    "not": "!" * 20_000 + "true",
    "minus": "-" * 20_000 + "object",
}


def issues(text: str) -> str:
    """What is wrong with a text, empty if it can be planned and evaluated."""
    ast = ENV.compile(text)
    if isinstance(ast, Issues):
        return ast.to_display_string()
    try:
        ENV.program(ast).eval({"object": {}})
    except PlanError as error:
        return error.message
    return ""


@pytest.mark.parametrize("count", [249, 251, 2000, pytest.param(15_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CHAINS)
def test_chain(name: str, count: int) -> None:
    first, link, _ = CHAINS[name]
    text = first + link * count
    wanted = "" if count < 250 else f"ERROR: <input>:-1:0: {TOO_DEEP}"
    if len(text) <= 100_000:
        assert issues(text) == wanted


@pytest.mark.parametrize("count", [200, 251, 5000])
@pytest.mark.parametrize("name", NESTED)
def test_nested(name: str, count: int) -> None:
    opening, inside, closing = NESTED[name]
    text = opening * count + inside + closing * count
    wanted = "" if count < 250 else f"ERROR: <input>:-1:0: {TOO_NESTED}"
    assert issues(text) == wanted


@pytest.mark.parametrize("name", FLAT)
def test_flat(name: str) -> None:
    assert issues(FLAT[name]) == ""
