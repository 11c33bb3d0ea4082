"""Macros: `cel.bind`, `proto.getExt`, `proto.hasExt` (cel-go `ext/bindings.go`, `ext/protos.go`), and comprehensions.

Comprehensions are over keys and values (cel-go `ext/comprehensions.go`): the macros and their expansions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replay.cel.ast import operator
from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Call, Expr, Ident, Select
from replay.cel.declare.library import Library, overloaded
from replay.cel.declare.macros import (
    Macro,
    MacroError,
    all_macro,
    exists_macro,
    exists_one_macro,
    let,
    receiver,
    refuse_accumulator,
    simple_name,
)
from replay.cel.strict.frame import MutableMap
from replay.cel.value.equality import find, map_keys
from replay.cel.value.text import display
from replay.cel.value.types import map_type, type_param
from replay.cel.value.values import EvalError, Value, map_key


def is_namespace(target: Expr | None, name: str) -> bool:
    """Return whether the receiver of a macro is the name of its library."""
    return isinstance(target, Ident) and target.name == name


def _bind(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if not is_namespace(target, "cel"):
        return None
    name = simple_name(args[0], "cel.bind() variable names must be simple identifiers")
    return let(factory, factory.list(), name, args[1], args[2])


BINDINGS = Library(name="cel.lib.ext.cel.bindings", macros=(Macro("bind", (3,), _bind),))
"""`cel.bind`."""


def _qualified_name(node: Expr) -> str | None:
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test_only:
        operand = _qualified_name(node.operand)
        return None if operand is None else f"{operand}.{node.field}"
    return None


def _field(node: Expr) -> str:
    name = _qualified_name(node) if isinstance(node, Select) else None
    if name is None:
        raise MacroError(node, "invalid extension field")
    return name


def _has_extension(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if not is_namespace(target, "proto"):
        return None
    return factory.presence_test(args[0], _field(args[1]))


def _get_extension(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if not is_namespace(target, "proto"):
        return None
    return factory.select(args[0], _field(args[1]))


PROTOS = Library(
    name="cel.lib.ext.protos",
    macros=(Macro("getExt", (2,), _get_extension), Macro("hasExt", (2,), _has_extension)),
)
"""`proto.getExt` and `proto.hasExt`."""


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
