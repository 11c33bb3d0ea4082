"""Expressions over three variables without a type, in an environment of plain CEL with optional values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replay.cel.ast.issues import Issues
from replay.cel.ast.tree import Ast
from replay.cel.declare.library import Library, VariableDecl
from replay.cel.env import Env
from replay.cel.value.types import DYN
from replay.cel.value.values import EvalError, OptionalValue, Unknown, Value
from replay.cellib.library.optionals import OPTIONALS

VARIABLES = Library("variables", variables=tuple(VariableDecl(name, DYN) for name in ("a", "b", "c.d")))
ENV = Env([OPTIONALS, VARIABLES])


def checked(text: str) -> Ast:
    """The tree of an expression with types and references."""
    ast = ENV.compile(text)
    assert not isinstance(ast, Issues), ast.to_display_string()
    return ast


def parsed(text: str) -> Ast:
    """The tree alone, as an expression has it that nobody checked."""
    ast = ENV.parse(text)
    assert not isinstance(ast, Issues), ast.to_display_string()
    return ast


def plain(value: Value) -> Any:
    """A value that compares: errors, unknowns and optionals as their texts."""
    if isinstance(value, EvalError):
        return f"error: {value.message}"
    if isinstance(value, Unknown):
        return f"unknown: {', '.join(str(each) for each in value.missing)}"
    if isinstance(value, OptionalValue):
        return f"optional of {plain(value.value)}" if value.has_value else "optional of nothing"
    return value


def evaluated(ast: Ast, bindings: Mapping[str, Value]) -> tuple[Any, int, list[Any]]:
    """What an expression comes to, what it costs, and the value of each step as it ends."""
    result, trace = ENV.program(ast).trace(bindings)
    return plain(result.value), result.cost, [plain(value) for _, value in trace.steps]
