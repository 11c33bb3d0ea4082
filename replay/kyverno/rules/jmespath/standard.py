"""Standard functions of JMESPath, as go-jmespath implements them (`functions.go`)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from msgspec import Struct

from replay.go.format import marshal
from replay.json import JSON
from replay.kyverno.rules.go_value import MapSlice, equal, known, parse_float, sprint, type_name
from replay.kyverno.rules.response import GoPanicError, JMESPathError, NotFoundError

# Functions of JMESPath: argument types and their check (go-jmespath `functions.go`).

NUMBER, STRING, ARRAY, OBJECT, ANY, _EXPREF = "number", "string", "array", "object", "any", "expref"
_ARRAY_OF_NUMBERS, _ARRAY_OF_STRINGS = "array[number]", "array[string]"


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


def _is_array_of(kind: type, value: JSON) -> bool:
    """Return whether a value is a `[]interface{}` whose items all have one type."""
    return type(value) is list and all(type(known(item)) is kind for item in value)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    NUMBER: lambda value: type(value) is float,
    STRING: lambda value: type(value) is str,
    ARRAY: lambda value: isinstance(value, list),
    OBJECT: lambda value: type(value) is dict,
    _ARRAY_OF_NUMBERS: lambda value: _is_array_of(float, value),
    _ARRAY_OF_STRINGS: lambda value: _is_array_of(str, value),
    ANY: lambda _: True,
    _EXPREF: lambda value: isinstance(value, ExpressionReference),
}


def _plain_list(value: JSON) -> list[JSON]:
    """Return the items of a `[]interface{}`.

    Raises GoPanicError for a `[]map[string]interface{}`, as the library panics.
    """
    if isinstance(value, MapSlice):
        raise GoPanicError("interface conversion: interface {} is []map[string]interface {}, not []interface {}")
    return list(value)


def _average(values: list[float]) -> float:
    # Not `sum`, which corrects for rounding as Go does not.
    return reduce(operator.add, values, 0.0) / len(values) if values else math.nan


def _contains(searched: JSON, wanted: JSON) -> bool:
    if type(searched) is str:
        return type(wanted) is str and wanted in searched
    for item in _plain_list(searched):
        # Go's `==` panics for two maps and for two slices in interfaces.
        if type(item) is type(wanted) and isinstance(item, dict | list):
            raise GoPanicError(f"runtime error: comparing uncomparable type {type_name(item)}")
        if equal(item, wanted):
            return True
    return False


def _evaluated(reference: ExpressionReference, item: JSON) -> Any:
    try:
        return reference.step(item)
    except NotFoundError:
        return None


def _map(reference: ExpressionReference, items: JSON) -> list[JSON]:
    return [_evaluated(reference, item) for item in _plain_list(items)]


def _extreme(is_better: Callable[[Any, Any], bool]) -> Callable[[JSON], JSON]:
    def run(values: list[Any]) -> JSON:
        best = values[0] if values else None
        for value in values[1:]:
            best = value if is_better(value, best) else best
        return best

    return run


def _extreme_by(is_better: Callable[[Any, Any], bool]) -> Callable[[JSON, ExpressionReference], JSON]:
    def run(items: JSON, reference: ExpressionReference) -> JSON:
        elements = _plain_list(items)
        if len(elements) <= 1:
            return elements[0] if elements else None
        best, best_item = _evaluated(reference, elements[0]), elements[0]
        kind = type(best)
        if kind not in (float, str):
            raise JMESPathError("invalid type, must be number of string")
        for item in elements[1:]:
            value = _evaluated(reference, item)
            if type(value) is not kind:
                raise JMESPathError(f"invalid type, must be {'number' if kind is float else 'string'}")
            if is_better(value, best):
                best, best_item = value, item
        return best_item

    return run


def _sort_by(items: JSON, reference: ExpressionReference) -> JSON:
    """Sort a list in place by the value of an expression and return it. Later expressions see it sorted, as in Go."""
    elements = _plain_list(items)
    if len(elements) <= 1:
        return items
    kind = type(_evaluated(reference, elements[0]))
    if kind not in (float, str):
        raise JMESPathError("invalid type, must be number of string")
    keys = [_evaluated(reference, item) for item in elements]
    if any(type(key) is not kind for key in keys):
        raise JMESPathError("error in sort_by comparison")
    items[:] = [elements[number] for number in sorted(range(len(elements)), key=keys.__getitem__)]
    return items


def _merge(*objects: JSON) -> JSON:
    merged: dict[str, JSON] = {}
    for each in objects:
        if type(each) is not dict:
            raise GoPanicError(
                f"interface conversion: interface {{}} is {type_name(each)}, not map[string]interface {{}}"
            )
        merged.update(each)
    return merged


def _reverse(value: JSON) -> JSON:
    return value[::-1] if type(value) is str else _plain_list(value)[::-1]


def _type(value: JSON) -> str:
    names: dict[type, str] = {
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
        type(None): "null",
        bool: "boolean",
    }
    if type(value) not in names:
        raise JMESPathError("unknown type")
    return names[type(value)]


def _to_number(value: JSON) -> float | None:
    if type(value) is float:
        return value
    if type(value) is str:
        return parse_float(value)
    if type(value) in (list, dict, bool, type(None)):
        return None
    raise JMESPathError("unknown type")


def _to_string(value: JSON) -> str:
    if type(value) is str:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        text = "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
        raise JMESPathError(f"json: unsupported value: {text}")
    return marshal(value)


def _not_null(*values: JSON) -> JSON:
    return next((value for value in values if value is not None), None)


def _sorted(values: list[Any]) -> list[Any]:
    return (
        sorted(values)
        if not _is_array_of(float, values)
        # Go's `sort.Float64s` puts NaN first.
        else sorted(values, key=lambda number: (not math.isnan(number), number))
    )


STANDARD: tuple[Function, ...] = (
    Function("length", ((STRING, ARRAY, OBJECT),), lambda value: float(len(value))),
    Function("starts_with", ((STRING,), (STRING,)), str.startswith),
    Function("abs", ((NUMBER,),), abs),
    Function("avg", ((_ARRAY_OF_NUMBERS,),), _average),
    Function("ceil", ((NUMBER,),), lambda value: float(math.ceil(value)) if math.isfinite(value) else value),
    Function("contains", ((ARRAY, STRING), (ANY,)), _contains),
    Function("ends_with", ((STRING,), (STRING,)), str.endswith),
    Function("floor", ((NUMBER,),), lambda value: float(math.floor(value)) if math.isfinite(value) else value),
    Function("map", ((_EXPREF,), (ARRAY,)), _map),
    Function("max", ((_ARRAY_OF_NUMBERS, _ARRAY_OF_STRINGS),), _extreme(lambda value, best: bool(value > best))),
    Function("min", ((_ARRAY_OF_NUMBERS, _ARRAY_OF_STRINGS),), _extreme(lambda value, best: bool(value < best))),
    Function("max_by", ((ARRAY,), (_EXPREF,)), _extreme_by(lambda value, best: bool(value > best))),
    Function("min_by", ((ARRAY,), (_EXPREF,)), _extreme_by(lambda value, best: bool(value < best))),
    Function("merge", ((OBJECT,),), _merge, variadic=True),
    Function("type", ((ANY,),), _type),
    Function("keys", ((OBJECT,),), list),
    Function("values", ((OBJECT,),), lambda value: list(value.values())),
    Function("sort", ((_ARRAY_OF_STRINGS, _ARRAY_OF_NUMBERS),), _sorted),
    Function("sort_by", ((ARRAY,), (_EXPREF,)), _sort_by),
    Function("join", ((STRING,), (_ARRAY_OF_STRINGS,)), str.join),
    Function("reverse", ((ARRAY, STRING),), _reverse),
    Function("to_array", ((ANY,),), lambda value: value if type(value) is list else [value]),
    Function("to_string", ((ANY,),), _to_string),
    Function("to_number", ((ANY,),), _to_number),
    Function("not_null", ((ANY,),), _not_null, variadic=True),
)
"""All standard functions except `sum`, which Kyverno replaces."""
