"""Implementations of the standard functions by overload id, and functions with one implementation for all overloads.

`replay.cel.declare.declarations` has the declarations. The split is cel-go's (`common/stdlib`): operators, `size`,
`type`, `dyn` and `matches` are singletons that check traits instead of types. All other functions check argument types.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from replay.cel.ast import operator
from replay.cel.declare.library import Implementation
from replay.cel.value import arithmetic, conversion, traits
from replay.cel.value.equality import NO_SUCH_OVERLOAD, compare, contains, map_size
from replay.cel.value.regexp import matches
from replay.cel.value.timestamp import duration_field, field
from replay.cel.value.values import EvalError, Value


class Singleton(Struct, frozen=True):
    """One implementation for all overloads of a function. `trait` is required of the first argument."""

    implementation: Implementation
    trait: str = ""


def _less(left: Value, right: Value) -> bool:
    return compare(left, right) < 0


def _less_equals(left: Value, right: Value) -> bool:
    return compare(left, right) <= 0


def _greater(left: Value, right: Value) -> bool:
    return compare(left, right) > 0


def _greater_equals(left: Value, right: Value) -> bool:
    return compare(left, right) >= 0


def _not(value: Value) -> bool:
    if type(value) is not bool:
        raise EvalError(NO_SUCH_OVERLOAD)
    return not value


def _membership(element: Value, container: Value) -> Value:
    if not traits.has_trait(container, traits.CONTAINER):
        raise EvalError(NO_SUCH_OVERLOAD)
    return contains(container, element)


def size(value: Value) -> int:
    """Return the number of code points, bytes, elements or entries."""
    return map_size(value)


def identity(value: Value) -> Value:
    """Return the value unchanged."""
    return value


SINGLETONS: dict[str, Singleton] = {
    operator.ADD: Singleton(arithmetic.add, traits.ADDER),
    operator.SUBTRACT: Singleton(arithmetic.subtract, traits.SUBTRACTOR),
    operator.MULTIPLY: Singleton(arithmetic.multiply, traits.MULTIPLIER),
    operator.DIVIDE: Singleton(arithmetic.divide, traits.DIVIDER),
    operator.MODULO: Singleton(arithmetic.modulo, traits.MODDER),
    operator.NEGATE: Singleton(arithmetic.negate, traits.NEGATOR),
    operator.LOGICAL_NOT: Singleton(_not),
    operator.LESS: Singleton(_less, traits.COMPARER),
    operator.LESS_EQUALS: Singleton(_less_equals, traits.COMPARER),
    operator.GREATER: Singleton(_greater, traits.COMPARER),
    operator.GREATER_EQUALS: Singleton(_greater_equals, traits.COMPARER),
    operator.IN: Singleton(_membership),
    "size": Singleton(size, traits.SIZER),
    "type": Singleton(conversion.to_type),
    "dyn": Singleton(identity),
    "matches": Singleton(matches, traits.MATCHER),
}


def _text_test(test: Callable[[str, str], bool]) -> Implementation:
    """Return `contains`, `startsWith` or `endsWith`, which check the types of their arguments themselves."""

    def implementation(text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            raise EvalError(NO_SUCH_OVERLOAD)
        return test(text, part)

    return implementation


UNGUARDED = frozenset({"contains", "endsWith", "startsWith"})
"""Standard functions whose overloads are called without a check of argument types (cel-go `DisableTypeGuards`)."""


def _not_strictly_false(value: Value) -> Value:
    """Return True for anything but `false`: an error or unknown must not end a comprehension."""
    return value if type(value) is bool else True


def _fields() -> dict[str, Implementation]:
    """Return `timestamp.getX()`, `timestamp.getX(zone)` and `duration.getX()` by overload id."""
    names = {
        "year": "getFullYear",
        "month": "getMonth",
        "day_of_year": "getDayOfYear",
        "day_of_month": "getDayOfMonth",
        "day_of_month_1_based": "getDate",
        "day_of_week": "getDayOfWeek",
        "hours": "getHours",
        "minutes": "getMinutes",
        "seconds": "getSeconds",
        "milliseconds": "getMilliseconds",
    }
    table: dict[str, Implementation] = {}
    for suffix, name in names.items():
        table[f"timestamp_to_{suffix}"] = _timestamp_field(name)
        # The constant for seconds is spelled differently upstream.
        zoned = "timestamp_to_seconds_tz" if suffix == "seconds" else f"timestamp_to_{suffix}_with_tz"
        table[zoned] = _timestamp_field(name)
    for suffix in ("hours", "minutes", "seconds", "milliseconds"):
        table[f"duration_to_{suffix}"] = _duration_field(names[suffix])
    return table


def _timestamp_field(name: str) -> Implementation:
    return lambda instant, zone="UTC": field(instant, name, zone)


def _duration_field(name: str) -> Implementation:
    return lambda span: duration_field(span, name)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "not_strictly_false": _not_strictly_false,
    "bool_to_bool": identity,
    "string_to_bool": conversion.to_bool,
    "bytes_to_bytes": identity,
    "string_to_bytes": conversion.to_bytes,
    "double_to_double": identity,
    "int64_to_double": conversion.to_double,
    "string_to_double": conversion.to_double,
    "uint64_to_double": conversion.to_double,
    "duration_to_duration": identity,
    "string_to_duration": conversion.to_duration,
    "int64_to_duration": conversion.to_duration,
    "int64_to_int64": identity,
    "double_to_int64": conversion.to_int,
    "duration_to_int64": conversion.to_int,
    "string_to_int64": conversion.to_int,
    "timestamp_to_int64": conversion.to_int,
    "uint64_to_int64": conversion.to_int,
    "string_to_string": identity,
    "bool_to_string": conversion.to_string,
    "bytes_to_string": conversion.to_string,
    "double_to_string": conversion.to_string,
    "duration_to_string": conversion.to_string,
    "int64_to_string": conversion.to_string,
    "timestamp_to_string": conversion.to_string,
    "uint64_to_string": conversion.to_string,
    "timestamp_to_timestamp": identity,
    "int64_to_timestamp": conversion.to_timestamp,
    "string_to_timestamp": conversion.to_timestamp,
    "uint64_to_uint64": identity,
    "double_to_uint64": conversion.to_uint,
    "int64_to_uint64": conversion.to_uint,
    "string_to_uint64": conversion.to_uint,
    "contains_string": _text_test(lambda text, part: part in text),
    "ends_with_string": _text_test(str.endswith),
    "starts_with_string": _text_test(str.startswith),
    **_fields(),
}
