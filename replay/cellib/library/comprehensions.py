"""Comprehensions over keys and values (cel-go `ext/comprehensions.go`): the macros, and what they expand to."""

from __future__ import annotations

from replay.cel.declare.library import Function, Library, Overload
from replay.cel.declare.macros import TWO_VARIABLE_MACROS
from replay.cel.strict.frame import MutableMap
from replay.cel.value.equality import find, map_keys
from replay.cel.value.text import display
from replay.cel.value.types import map_type, type_param
from replay.cel.value.values import EvalError, Value, map_key

_K, _V = type_param("K"), type_param("V")
_MAP = map_type(_K, _V)


def insert(target: Value, key: Value, value: Value) -> Value:
    """The map with one more entry; the accumulator of a fold is changed in place.

    Raises `EvalError` where the map has an equal key, numbers of different types being equal keys.
    """
    if find(target, key)[0]:
        raise EvalError(f"insert failed: key {display(key)} already exists")
    if not isinstance(target, MutableMap):
        target = {map_key(known): find(target, known)[1] for known in map_keys(target)}
    target[map_key(key)] = value
    return target


def _insert_all(target: Value, update: Value) -> Value:
    for key in map_keys(update):
        target = insert(target, key, find(update, key)[1])
    return target


TWO_VARIABLE_COMPREHENSIONS = Library(
    name="cel.lib.ext.comprev2",
    functions=(
        Function(
            "cel.@mapInsert",
            (
                Overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, implementation=insert),
                Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, implementation=_insert_all),
            ),
        ),
    ),
    macros=TWO_VARIABLE_MACROS,
)
"""Two-variable `all`, `exists`, `existsOne`, `transformList`, `transformMap` and `transformMapEntry`."""
