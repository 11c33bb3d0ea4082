"""Random expressions in this engine and in cel-python, as far as that goes: the same value, or an error in both."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.cel.ast.issues import Issues
from replay.cel.env import Env
from replay.cel.strict.folding import PlanError
from replay.cel.value.equality import is_list, is_map
from replay.cel.value.values import EvalError, Uint

with warnings.catch_warnings():
    # Warnings of another package's import are not ours to mend; all later ones are errors as everywhere.
    warnings.simplefilter("ignore")
    import celpy
    from celpy import celtypes

ERROR = ("error",)


FOLDED = ("folded",)
"""A constant part fails: the server refuses the expression even if that part would never be evaluated."""

HABITS = [
    ("Python's spelling of bools", "string(true)", ("string", "true"), ("string", "True")),
    ("numbers as bools", "bool('12')", FOLDED, ("bool", True)),
    ("negative indices count from the end", "[1, 2, 3][-3]", ERROR, ("int", 1)),
    ("the least int is within range", "int(double(-9223372036854775808))", FOLDED, ("int", -(2**63))),
    ("a sum of strings has no members", "('a' + 'b').contains('c')", ("bool", False), ERROR),
]
"""Where cel-python is known to leave the specification: name, expression, our value and its. Not generated below.

It also keeps the errors of a map's values in the map, and a sum of lists is one of Python's lists; those are left out too.
"""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """cel-python logs each error that it evaluates."""
    logger = logging.getLogger("celpy")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@cache
def environments() -> tuple[Env, Any]:
    """Both engines without libraries; cel-python's parser takes long to build."""
    return Env([]), celpy.Environment()


def plain(value: Any) -> Any:
    """A value as nested tuples that say the CEL type of each part; the same for both engines."""
    if isinstance(value, celtypes.BoolType | bool):
        return ("bool", bool(value))
    if isinstance(value, celtypes.UintType | Uint):
        return ("uint", int(value))
    if isinstance(value, int | float):
        return ("int" if isinstance(value, int) else "double", value)
    if isinstance(value, dict):
        return ("map", frozenset((plain(getattr(key, "value", key)), plain(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("list", tuple(map(plain, value)))
    return ("null" if value is None else "string", value if value is None else str(value))


def ours(text: str) -> Any:
    env, _ = environments()
    ast = env.compile(text)
    if isinstance(ast, Issues):
        return ERROR
    try:
        value = env.program(ast).eval({}).value
    except PlanError:
        return FOLDED
    if isinstance(value, EvalError):
        return ERROR
    assert is_list(value) or is_map(value) or isinstance(value, bool | int | float | str | None), text
    return plain(value)


def theirs(text: str) -> Any:
    _, env = environments()
    try:
        return plain(env.program(env.compile(text)).evaluate({}))
    except Exception:  # noqa: BLE001 - whatever another engine raises is its answer: an error
        return ERROR


@pytest.mark.parametrize(("text", "mine", "other"), [row[1:] for row in HABITS], ids=[row[0] for row in HABITS])
def test_habits_of_the_other_engine(text: str, mine: Any, other: Any) -> None:
    assert (ours(text), theirs(text)) == (mine, other)


INTS = ("0", "1", "2", "-3", "7", "9223372036854775807", "-9223372036854775808")
STRINGS = ("''", "'a'", "'abc'", "'12'", "'-7'", "'é😀'", "'true'")


def expression(chance: Random, kind: str, depth: int, names: tuple[str, ...] = ()) -> str:
    """A well-typed expression of a kind (int, bool, string, list, map); `names` are int variables of folds around it."""

    def part(wanted: str, inside: tuple[str, ...] = names) -> str:
        return expression(chance, wanted, depth - 1, inside)

    if depth <= 0:
        leaf = {"int": (*INTS, *names), "bool": ("true", "false"), "string": STRINGS}
        if kind in leaf:
            return chance.choice(leaf[kind])
        return chance.choice(["[1, 2, 3]", "[0]", "[5, -3]"] if kind == "list" else ["{'a': 1, 'abc': 2}", "{'b': 0}"])
    name = f"x{len(names)}"
    inner = (*names, name)
    any_kind = chance.choice(["int", "bool", "string", "list", "map"])
    ternary: Callable[[], str] = lambda: f"({part('bool')} ? {part(kind)} : {part(kind)})"  # noqa: E731 - one of a list
    forms: dict[str, list[Callable[[], str]]] = {
        "int": [
            lambda: f"({part('int')} {chance.choice('+-*/%')} {part('int')})",
            lambda: f"-({part('int')})",
            lambda: f"size({part(chance.choice(['string', 'list', 'map']))})",
            lambda: f"{part(chance.choice(['string', 'list', 'map']))}.size()",
            lambda: f"{part('list')}[{chance.choice(['0', '1', '2', '7'])}]",
            lambda: f"{part('map')}[{part('string')}]",
            lambda: f"{part('map')}.{chance.choice(['a', 'b', 'abc'])}",
            lambda: f"int({part('string')})",
            lambda: f"int(double({chance.choice(['0', '-3', '7'])}))",
        ],
        "bool": [
            lambda: f"({part('bool')} {chance.choice(['&&', '||'])} {part('bool')})",
            lambda: f"!({part('bool')})",
            lambda: f"({part(any_kind)} {chance.choice(['==', '!='])} {part(any_kind)})",
            lambda: f"({part('int')} {chance.choice(['<', '<=', '>', '>='])} {part('int')})",
            lambda: f"({part('string')} {chance.choice(['<', '<=', '>', '>='])} {part('string')})",
            lambda: f"({part('int')} in {part('list')})",
            lambda: f"({part('string')} in {part('map')})",
            lambda: f"has({part('map')}.{chance.choice(['a', 'b', 'abc'])})",
            lambda: f"{part('string')}.{chance.choice(['startsWith', 'endsWith', 'contains'])}({part('string')})",
            lambda: f"{part('list')}.{chance.choice(['all', 'exists', 'exists_one'])}({name}, {part('bool', inner)})",
            lambda: f"bool('{chance.choice(['true', 'false', 'yes'])}')",
        ],
        "string": [
            lambda: f"string({part('string')} + {part('string')})",
            lambda: f"string({part(chance.choice(['int', 'string']))})",
        ],
        "list": [
            lambda: f"[{part('int')}, {part('int')}]",
            lambda: f"{part('list')}.filter({name}, {part('bool', inner)})",
            lambda: f"{part('list')}.map({name}, {part('int', inner)})",
        ],
        "map": [lambda: f"{{'a': {chance.choice(INTS)}, 'b': {chance.choice(INTS)}}}"],
    }
    return chance.choice([*forms[kind], ternary])()


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["int", "bool", "string", "list", "map"]), st.integers(0, 3))
def test_both_engines_agree(chance: Random, kind: str, depth: int) -> None:
    text = expression(chance, kind, depth)
    mine, other = ours(text), theirs(text)
    assert mine in (other, FOLDED), f"{text}: {mine} here, {other} in cel-python"
