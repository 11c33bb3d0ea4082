"""Operand types of builtins, one letter each (`opa/v1/topdown/builtins/builtins.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replay.gatekeeper.rego.value import UNDEFINED, Number, Object, PartialObject, Set, UnknownValue, Value

BuiltinFunction = Callable[..., Value]

ARITIES: dict[str, int] = {}
FUNCTIONS: dict[str, BuiltinFunction] = {}
DEPRECATED = frozenset(
    {
        "any",
        "all",
        "re_match",
        "set_diff",
        "net.cidr_overlap",
        "cast_array",
        "cast_set",
        "cast_string",
        "cast_boolean",
        "cast_null",
        "cast_object",
    }
)
"""Builtins that Rego v1 no longer has."""

_KINDS: dict[str, frozenset[type]] = {
    "s": frozenset({str}),
    "n": frozenset({int, Number}),
    "i": frozenset({int}),
    "a": frozenset({list}),
    "o": frozenset({dict, Object}),
    "t": frozenset({Set}),
    "c": frozenset({list, Set}),
    "x": frozenset({str, int, Number, list, dict, Object, Set, bool, type(None)}),
}


class BuiltinError(Exception):
    """Operand for which a builtin has no result. The expression is undefined."""


def wrong(*values: Value) -> Value:
    """Return a builtin's result for operands of wrong types: undefined. Raises UnknownTouchedError if one is unknown."""
    for value in values:
        if isinstance(value, UnknownValue | PartialObject):
            value.touched()
    return UNDEFINED


def is_valid(read: Callable[[str], object], text: Value) -> Value:
    """Return the result of a builtin that says whether a text can be read. `read` raises BuiltinError if not."""
    if type(text) is not str:
        wrong(text)
        return False
    try:
        read(text)
    except BuiltinError:
        return False
    return True


def plain(name: str, arity: int) -> Callable[[BuiltinFunction], BuiltinFunction]:
    """Register a builtin that checks its operands itself."""

    def register(function: BuiltinFunction) -> BuiltinFunction:
        ARITIES[name] = arity
        FUNCTIONS[name] = function
        return function

    return register


def builtin(name: str, kinds: str) -> Callable[[BuiltinFunction], BuiltinFunction]:
    """Register a builtin whose operand types are given as letters."""
    checks = [_KINDS[kind] for kind in kinds]

    def register(function: BuiltinFunction) -> BuiltinFunction:
        def checked(*values: Value) -> Value:
            for value, kind in zip(values, checks, strict=True):
                if type(value) not in kind:
                    if kind is _KINDS["i"] and type(value) is Number and value.text == "-0":
                        return checked(*(0 if each is value else each for each in values))
                    return wrong(*values)
            try:
                return function(*values)
            except BuiltinError:
                return UNDEFINED

        ARITIES[name] = len(checks)
        FUNCTIONS[name] = checked
        return function

    return register


def strings_of(values: Any) -> list[str]:
    """Return the elements, which must all be strings. Raises BuiltinError."""
    found = list(values)
    for value in found:
        if type(value) is not str:
            wrong(value)
            raise BuiltinError
    return found


def scalar_type(value: Value) -> str:
    """Return the name of a constant's type."""
    if isinstance(value, bool):
        return "boolean"
    return "null" if value is None else "string" if isinstance(value, str) else "number"
