"""The functions and types of standard CEL, as plain data.

Names, overload ids, types and their order are those of cel-go (`common/stdlib/standard.go`). Overloads are tried in
that order, and the order decides the type of a call with dynamic arguments.
"""

from __future__ import annotations

from msgspec.structs import replace

from replay.cel.ast import operator
from replay.cel.declare.library import Function, Library, Overload
from replay.cel.declare.macros import STANDARD_MACROS
from replay.cel.release import Release
from replay.cel.value.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_type,
    map_type,
    type_param,
    type_type,
)

_A = type_param("A")
_B = type_param("B")
_LIST_OF_A = list_type(_A)
_MAP_OF_AB = map_type(_A, _B)


def _function(name: str, *overloads: Overload) -> Function:
    return Function(name, overloads)


def _arithmetic(name: str, verb: str, *signatures: tuple[str, Type, Type, Type]) -> Function:
    return _function(name, *[Overload(f"{verb}_{suffix}", (one, other), to) for suffix, one, other, to in signatures])


def _ordering(name: str, verb: str) -> Function:
    """Return an order comparison, of equal types and of numbers across types."""
    pairs: list[tuple[str, Type, Type]] = [
        ("bool", BOOL, BOOL),
        ("int64", INT, INT),
        ("int64_double", INT, DOUBLE),
        ("int64_uint64", INT, UINT),
        ("uint64", UINT, UINT),
        ("uint64_double", UINT, DOUBLE),
        ("uint64_int64", UINT, INT),
        ("double", DOUBLE, DOUBLE),
        ("double_int64", DOUBLE, INT),
        ("double_uint64", DOUBLE, UINT),
        ("string", STRING, STRING),
        ("bytes", BYTES, BYTES),
        ("timestamp", TIMESTAMP, TIMESTAMP),
        ("duration", DURATION, DURATION),
    ]
    return _function(name, *[Overload(f"{verb}_{suffix}", (one, other), BOOL) for suffix, one, other in pairs])


def _conversion(name: str, result: Type, *sources: tuple[str, Type]) -> Function:
    return _function(name, *[Overload(id_, (source,), result) for id_, source in sources])


def _text_test(name: str, id_: str) -> Function:
    return _function(name, Overload(id_, (STRING, STRING), BOOL, member=True))


def _time_field(name: str, suffix: str, *, of_duration: bool = False) -> Function:
    """Return the function for a part of a timestamp, in UTC or in a time zone, and of a duration if it has that part."""
    zoned = "timestamp_to_seconds_tz" if suffix == "seconds" else f"timestamp_to_{suffix}_with_tz"
    overloads = [
        Overload(f"timestamp_to_{suffix}", (TIMESTAMP,), INT, member=True),
        Overload(zoned, (TIMESTAMP, STRING), INT, member=True),
    ]
    if of_duration:
        overloads.append(Overload(f"duration_to_{suffix}", (DURATION,), INT, member=True))
    return _function(name, *overloads)


_LOGIC = (
    _function(operator.CONDITIONAL, Overload("conditional", (BOOL, _A, _A), _A, non_strict=True)),
    _function(operator.LOGICAL_AND, Overload("logical_and", (BOOL, BOOL), BOOL, non_strict=True)),
    _function(operator.LOGICAL_OR, Overload("logical_or", (BOOL, BOOL), BOOL, non_strict=True)),
    _function(operator.LOGICAL_NOT, Overload("logical_not", (BOOL,), BOOL)),
    _function(operator.NOT_STRICTLY_FALSE, Overload("not_strictly_false", (BOOL,), BOOL, non_strict=True)),
    _function(operator.EQUALS, Overload("equals", (_A, _A), BOOL)),
    _function(operator.NOT_EQUALS, Overload("not_equals", (_A, _A), BOOL)),
)
_ARITHMETIC = (
    _arithmetic(
        operator.ADD,
        "add",
        ("bytes", BYTES, BYTES, BYTES),
        ("double", DOUBLE, DOUBLE, DOUBLE),
        ("duration_duration", DURATION, DURATION, DURATION),
        ("duration_timestamp", DURATION, TIMESTAMP, TIMESTAMP),
        ("timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP),
        ("int64", INT, INT, INT),
        ("list", _LIST_OF_A, _LIST_OF_A, _LIST_OF_A),
        ("string", STRING, STRING, STRING),
        ("uint64", UINT, UINT, UINT),
    ),
    _arithmetic(
        operator.DIVIDE,
        "divide",
        ("double", DOUBLE, DOUBLE, DOUBLE),
        ("int64", INT, INT, INT),
        ("uint64", UINT, UINT, UINT),
    ),
    _arithmetic(operator.MODULO, "modulo", ("int64", INT, INT, INT), ("uint64", UINT, UINT, UINT)),
    _arithmetic(
        operator.MULTIPLY,
        "multiply",
        ("double", DOUBLE, DOUBLE, DOUBLE),
        ("int64", INT, INT, INT),
        ("uint64", UINT, UINT, UINT),
    ),
    _function(operator.NEGATE, Overload("negate_double", (DOUBLE,), DOUBLE), Overload("negate_int64", (INT,), INT)),
    _arithmetic(
        operator.SUBTRACT,
        "subtract",
        ("double", DOUBLE, DOUBLE, DOUBLE),
        ("duration_duration", DURATION, DURATION, DURATION),
        ("int64", INT, INT, INT),
        ("timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP),
        ("timestamp_timestamp", TIMESTAMP, TIMESTAMP, DURATION),
        ("uint64", UINT, UINT, UINT),
    ),
)
_ORDER = (
    _ordering(operator.LESS, "less"),
    _ordering(operator.LESS_EQUALS, "less_equals"),
    _ordering(operator.GREATER, "greater"),
    _ordering(operator.GREATER_EQUALS, "greater_equals"),
)
_COLLECTIONS = (
    _function(
        operator.INDEX, Overload("index_list", (_LIST_OF_A, INT), _A), Overload("index_map", (_MAP_OF_AB, _A), _B)
    ),
    _function(operator.IN, Overload("in_list", (_A, _LIST_OF_A), BOOL), Overload("in_map", (_A, _MAP_OF_AB), BOOL)),
    _function(
        "size",
        Overload("size_bytes", (BYTES,), INT),
        Overload("bytes_size", (BYTES,), INT, member=True),
        Overload("size_list", (_LIST_OF_A,), INT),
        Overload("list_size", (_LIST_OF_A,), INT, member=True),
        Overload("size_map", (_MAP_OF_AB,), INT),
        Overload("map_size", (_MAP_OF_AB,), INT, member=True),
        Overload("size_string", (STRING,), INT),
        Overload("string_size", (STRING,), INT, member=True),
    ),
)
_CONVERSIONS = (
    _conversion("type", type_type(_A), ("type", _A)),
    _conversion("bool", BOOL, ("bool_to_bool", BOOL), ("string_to_bool", STRING)),
    _conversion("bytes", BYTES, ("bytes_to_bytes", BYTES), ("string_to_bytes", STRING)),
    _conversion(
        "double",
        DOUBLE,
        ("double_to_double", DOUBLE),
        ("int64_to_double", INT),
        ("string_to_double", STRING),
        ("uint64_to_double", UINT),
    ),
    _conversion("duration", DURATION, ("duration_to_duration", DURATION), ("string_to_duration", STRING)),
    _conversion("dyn", DYN, ("to_dyn", _A)),
    _conversion(
        "int",
        INT,
        ("int64_to_int64", INT),
        ("double_to_int64", DOUBLE),
        ("duration_to_int64", DURATION),
        ("string_to_int64", STRING),
        ("timestamp_to_int64", TIMESTAMP),
        ("uint64_to_int64", UINT),
    ),
    _conversion(
        "string",
        STRING,
        ("string_to_string", STRING),
        ("bool_to_string", BOOL),
        ("bytes_to_string", BYTES),
        ("double_to_string", DOUBLE),
        ("duration_to_string", DURATION),
        ("int64_to_string", INT),
        ("timestamp_to_string", TIMESTAMP),
        ("uint64_to_string", UINT),
    ),
    _conversion(
        "timestamp",
        TIMESTAMP,
        ("timestamp_to_timestamp", TIMESTAMP),
        ("int64_to_timestamp", INT),
        ("string_to_timestamp", STRING),
    ),
    _conversion(
        "uint",
        UINT,
        ("uint64_to_uint64", UINT),
        ("double_to_uint64", DOUBLE),
        ("int64_to_uint64", INT),
        ("string_to_uint64", STRING),
    ),
)
_TEXT = (
    _text_test("contains", "contains_string"),
    _text_test("endsWith", "ends_with_string"),
    _text_test("startsWith", "starts_with_string"),
    _function(
        "matches",
        Overload("matches", (STRING, STRING), BOOL),
        Overload("matches_string", (STRING, STRING), BOOL, member=True),
    ),
)
_TIME = (
    _time_field("getFullYear", "year"),
    _time_field("getMonth", "month"),
    _time_field("getDayOfYear", "day_of_year"),
    _time_field("getDayOfMonth", "day_of_month"),
    _time_field("getDate", "day_of_month_1_based"),
    _time_field("getDayOfWeek", "day_of_week"),
    _time_field("getHours", "hours", of_duration=True),
    _time_field("getMinutes", "minutes", of_duration=True),
    _time_field("getSeconds", "seconds", of_duration=True),
    _time_field("getMilliseconds", "milliseconds", of_duration=True),
)

STANDARD_LIBRARY = Library(
    "stdlib",
    functions=(*_LOGIC, *_ARITHMETIC, *_ORDER, *_COLLECTIONS, *_CONVERSIONS, *_TEXT, *_TIME),
    types=(BOOL, BYTES, DOUBLE, DURATION, INT, list_type(DYN), map_type(DYN, DYN), NULL, STRING, TIMESTAMP, TYPE, UINT),
    macros=STANDARD_MACROS,
)
"""Standard CEL without implementations, which `replay.cel.declare.stdlib` has by overload id and function name."""

_UNTIL_0_26 = replace(
    STANDARD_LIBRARY,
    functions=(
        *STANDARD_LIBRARY.functions,
        _conversion("duration", DURATION, ("int64_to_duration", INT)),
    ),
)


def standard_library(release: Release) -> Library:
    """Return standard CEL of a release. Up to 0.26 `duration(int)` is declared, although it always fails."""
    return STANDARD_LIBRARY if release >= Release.V0_29 else _UNTIL_0_26
