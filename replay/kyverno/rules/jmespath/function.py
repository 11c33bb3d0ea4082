"""Functions of JMESPath: argument types and their check (go-jmespath `functions.go`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kyverno.rules.errors import GoPanicError, JMESPathError
from replay.kyverno.rules.go_value import MapSlice, known, sprint

NUMBER, STRING, ARRAY, OBJECT, ANY, EXPREF = "number", "string", "array", "object", "any", "expref"
ARRAY_OF_NUMBERS, ARRAY_OF_STRINGS = "array[number]", "array[string]"


class ExpressionReference(Struct, frozen=True):
    """Expression that a function evaluates itself, such as `&name`."""

    step: Callable[[Any], Any]


class Function(Struct, frozen=True):
    """Function with the accepted types of each argument.

    With `variadic` the last argument can be repeated and no type is checked. A function that declares no arguments
    accepts any.
    """

    name: str
    arguments: tuple[tuple[str, ...], ...]
    body: Callable[..., Any]
    variadic: bool = False


def call(function: Function, arguments: Sequence[JSON]) -> JSON:
    """Return the value of a call. Raises JMESPathError for wrong arguments."""
    if function.variadic:
        if len(arguments) < len(function.arguments):
            raise JMESPathError("Invalid arity.")
        return function.body(*map(known, arguments))
    if not function.arguments:
        return function.body()
    if len(arguments) != len(function.arguments):
        raise JMESPathError("incorrect number of args")
    for argument, types in zip(arguments, function.arguments, strict=True):
        if not any(_CHECKS[type_](known(argument)) for type_ in types):
            expected = ", ".join(f'"{type_}"' for type_ in types)
            raise JMESPathError(f"Invalid type for: {sprint(argument)}, expected: []jmespath.JpType{{{expected}}}")
    return function.body(*arguments)


def is_array_of(kind: type, value: JSON) -> bool:
    """Return whether a value is a `[]interface{}` whose items all have one type."""
    return type(value) is list and all(type(known(item)) is kind for item in value)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    NUMBER: lambda value: type(value) is float,
    STRING: lambda value: type(value) is str,
    ARRAY: lambda value: isinstance(value, list),
    OBJECT: lambda value: type(value) is dict,
    ARRAY_OF_NUMBERS: lambda value: is_array_of(float, value),
    ARRAY_OF_STRINGS: lambda value: is_array_of(str, value),
    ANY: lambda _: True,
    EXPREF: lambda value: isinstance(value, ExpressionReference),
}


def plain_list(value: JSON) -> list[JSON]:
    """Return the items of a `[]interface{}`.

    Raises GoPanicError for a `[]map[string]interface{}`, as the library panics.
    """
    if isinstance(value, MapSlice):
        raise GoPanicError("interface conversion: interface {} is []map[string]interface {}, not []interface {}")
    return list(value)
