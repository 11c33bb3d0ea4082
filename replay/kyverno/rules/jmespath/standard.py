"""Standard functions of JMESPath, as go-jmespath implements them (`functions.go`)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from replay.go.format import marshal
from replay.json import JSON
from replay.kyverno.rules.errors import GoPanicError, JMESPathError, NotFoundError
from replay.kyverno.rules.go_value import equal, parse_float, type_name
from replay.kyverno.rules.jmespath.function import (
    ANY,
    ARRAY,
    ARRAY_OF_NUMBERS,
    ARRAY_OF_STRINGS,
    EXPREF,
    NUMBER,
    OBJECT,
    STRING,
    ExpressionReference,
    Function,
    is_array_of,
    plain_list,
)


def _average(values: list[float]) -> float:
    # Not `sum`, which corrects for rounding as Go does not.
    return reduce(operator.add, values, 0.0) / len(values) if values else math.nan


def _contains(searched: JSON, wanted: JSON) -> bool:
    if type(searched) is str:
        return type(wanted) is str and wanted in searched
    for item in plain_list(searched):
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
    return [_evaluated(reference, item) for item in plain_list(items)]


def _extreme(is_better: Callable[[Any, Any], bool]) -> Callable[[JSON], JSON]:
    def run(values: list[Any]) -> JSON:
        best = values[0] if values else None
        for value in values[1:]:
            best = value if is_better(value, best) else best
        return best

    return run


def _extreme_by(is_better: Callable[[Any, Any], bool]) -> Callable[[JSON, ExpressionReference], JSON]:
    def run(items: JSON, reference: ExpressionReference) -> JSON:
        elements = plain_list(items)
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
    elements = plain_list(items)
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
    return value[::-1] if type(value) is str else plain_list(value)[::-1]


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
        if not is_array_of(float, values)
        # Go's `sort.Float64s` puts NaN first.
        else sorted(values, key=lambda number: (not math.isnan(number), number))
    )


STANDARD: tuple[Function, ...] = (
    Function("length", ((STRING, ARRAY, OBJECT),), lambda value: float(len(value))),
    Function("starts_with", ((STRING,), (STRING,)), str.startswith),
    Function("abs", ((NUMBER,),), abs),
    Function("avg", ((ARRAY_OF_NUMBERS,),), _average),
    Function("ceil", ((NUMBER,),), lambda value: float(math.ceil(value)) if math.isfinite(value) else value),
    Function("contains", ((ARRAY, STRING), (ANY,)), _contains),
    Function("ends_with", ((STRING,), (STRING,)), str.endswith),
    Function("floor", ((NUMBER,),), lambda value: float(math.floor(value)) if math.isfinite(value) else value),
    Function("map", ((EXPREF,), (ARRAY,)), _map),
    Function("max", ((ARRAY_OF_NUMBERS, ARRAY_OF_STRINGS),), _extreme(lambda value, best: bool(value > best))),
    Function("min", ((ARRAY_OF_NUMBERS, ARRAY_OF_STRINGS),), _extreme(lambda value, best: bool(value < best))),
    Function("max_by", ((ARRAY,), (EXPREF,)), _extreme_by(lambda value, best: bool(value > best))),
    Function("min_by", ((ARRAY,), (EXPREF,)), _extreme_by(lambda value, best: bool(value < best))),
    Function("merge", ((OBJECT,),), _merge, variadic=True),
    Function("type", ((ANY,),), _type),
    Function("keys", ((OBJECT,),), sorted),
    Function("values", ((OBJECT,),), lambda value: [value[key] for key in sorted(value)]),
    Function("sort", ((ARRAY_OF_STRINGS, ARRAY_OF_NUMBERS),), _sorted),
    Function("sort_by", ((ARRAY,), (EXPREF,)), _sort_by),
    Function("join", ((STRING,), (ARRAY_OF_STRINGS,)), str.join),
    Function("reverse", ((ARRAY, STRING),), _reverse),
    Function("to_array", ((ANY,),), lambda value: value if type(value) is list else [value]),
    Function("to_string", ((ANY,),), _to_string),
    Function("to_number", ((ANY,),), _to_number),
    Function("not_null", ((ANY,),), _not_null, variadic=True),
)
"""All standard functions except `sum`, which Kyverno replaces."""
