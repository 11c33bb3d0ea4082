"""Comprehensions over keys and values (cel-go `ext/comprehensions.go`): the macros and their expansions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replay.cel.ast import operator
from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Call, Expr
from replay.cel.declare.library import Library, overloaded
from replay.cel.declare.macros import (
    Macro,
    MacroError,
    all_macro,
    exists_macro,
    exists_one_macro,
    receiver,
    refuse_accumulator,
    simple_name,
)
from replay.cel.strict.frame import MutableMap
from replay.cel.value.equality import find, map_keys
from replay.cel.value.text import display
from replay.cel.value.types import map_type, type_param
from replay.cel.value.values import EvalError, Value, map_key

_K, _V = type_param("K"), type_param("V")
_MAP = map_type(_K, _V)
_MAP_INSERT = "cel.@mapInsert"


def insert(target: Value, key: Value, value: Value) -> Value:
    """Return the map with one more entry. The accumulator of a fold is changed in place.

    Raises `EvalError` if the map has an equal key. Numbers of different types can be equal keys.
    """
    if find(target, key)[0]:
        raise EvalError(f"insert failed: key {display(key)} already exists")
    if not isinstance(target, MutableMap):
        target = {map_key(present_key): find(target, present_key)[1] for present_key in map_keys(target)}
    target[map_key(key)] = value
    return target


def _insert_all(target: Value, update: Value) -> Value:
    for key in map_keys(update):
        target = insert(target, key, find(update, key)[1])
    return target


def _two_variables(_: ExprFactory, args: tuple[Expr, ...]) -> tuple[str, str]:
    first, second = (simple_name(arg, "argument must be a simple name") for arg in args[:2])
    if first == second:
        raise MacroError(args[1], f"duplicate variable name: {first}")
    refuse_accumulator(args[0], first)
    refuse_accumulator(args[1], second)
    return first, second


def _transform_list(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    names = _two_variables(factory, args)
    step = factory.call(operator.ADD, factory.accumulator(), factory.list(args[-1]))
    step = _conditional_step(factory, args, step)
    return _collect(factory, target, names, step, factory.list)


def _transform_map(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    names = _two_variables(factory, args)
    step = factory.call(_MAP_INSERT, factory.accumulator(), factory.ident(names[0]), args[-1])
    step = _conditional_step(factory, args, step)
    return _collect(factory, target, names, step, factory.map)


def _transform_map_entry(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    names = _two_variables(factory, args)
    step = factory.call(_MAP_INSERT, factory.accumulator(), args[-1])
    step = _conditional_step(factory, args, step)
    return _collect(factory, target, names, step, factory.map)


def _conditional_step(factory: ExprFactory, args: tuple[Expr, ...], step: Call) -> Call:
    """Return the step, which only runs if the optional third argument is true."""
    if len(args) > 3:
        return factory.call(operator.CONDITIONAL, args[2], step, factory.accumulator())
    return step


def _collect(
    factory: ExprFactory, target: Expr | None, names: tuple[str, str], step: Expr, empty: Callable[[], Expr]
) -> Expr:
    init = empty()
    condition = factory.literal(True)
    return factory.fold(receiver(target), names, factory.accumulator_name, init, condition, step, factory.accumulator())


TWO_VARIABLE_MACROS: Final = (
    Macro("all", (3,), all_macro(_two_variables, 2)),
    Macro("exists", (3,), exists_macro(_two_variables, 2)),
    Macro("existsOne", (3,), exists_one_macro(_two_variables, 2)),
    Macro("exists_one", (3,), exists_one_macro(_two_variables, 2)),
    Macro("transformList", (3, 4), _transform_list),
    Macro("transformMap", (3, 4), _transform_map),
    Macro("transformMapEntry", (3, 4), _transform_map_entry),
)

TWO_VARIABLE_COMPREHENSIONS = Library(
    name="cel.lib.ext.comprev2",
    functions=(
        overloaded(
            _MAP_INSERT,
            ("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, insert),
            ("@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_all),
        ),
    ),
    macros=TWO_VARIABLE_MACROS,
)
"""Two-variable `all`, `exists`, `existsOne`, `transformList`, `transformMap` and `transformMapEntry`."""
