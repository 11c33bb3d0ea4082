"""Values and what is done with them: numbers, times, texts, equality, order."""

from __future__ import annotations

import math
from typing import Any

import pytest

from replay.cel.value import conversion
from replay.cel.value.arithmetic import add, divide, modulo, negate, subtract
from replay.cel.value.equality import compare, equal, find
from replay.cel.value.regexp import compile_pattern, matches
from replay.cel.value.text import display, go_duration
from replay.cel.value.timestamp import (
    Duration,
    Timestamp,
    add_duration,
    duration_field,
    field,
    parse_duration,
    parse_timestamp,
)
from replay.cel.value.values import EvalError, MapKey, TypedList, TypedMap, Uint, map_key
from replay.go.format import general_text

BIG = 2**63 - 1


def result_of(function: Any, *args: Any) -> Any:
    """The result, or the text of the error."""
    try:
        return function(*args)
    except EvalError as error:
        return error.message


ARITHMETIC = [
    ("int overflow", add, (BIG, 1), "integer overflow"),
    ("uint underflow", subtract, (Uint(1), Uint(2)), "unsigned integer overflow"),
    ("toward zero", divide, (-7, 2), -3),
    ("the least int", divide, (-BIG - 1, -1), "integer overflow"),
    ("sign of the dividend", modulo, (-7, 2), -1),
    ("by zero", divide, (1, 0), "division by zero"),
    ("double by zero", divide, (-1.0, 0.0), -math.inf),
    ("mixed", add, (1, 1.0), "no such overload"),
    ("a bool is no int", add, (1, True), "no such overload"),
    ("the negated least int", negate, (-BIG - 1,), "integer overflow"),
    ("past the last year", add, (Timestamp(253402300799), Duration(10**9)), "timestamp overflow"),
]


@pytest.mark.parametrize(
    ("function", "args", "expected"), [row[1:] for row in ARITHMETIC], ids=[row[0] for row in ARITHMETIC]
)
def test_arithmetic(function: Any, args: tuple[Any, ...], expected: Any) -> None:
    result = result_of(function, *args)
    assert (type(result), result) == (type(expected), expected)


EQUALITY = [
    ("numbers across types", 1, 1.0, True),
    ("a bool is no number", True, 1, False),
    ("uint and int", Uint(1), 1, True),
    ("beyond exact doubles", 2**53 + 1, float(2**53), True),
    ("NaN", math.nan, math.nan, False),
    ("null and something", None, 0, False),
    ("nested bools", [True], [1], False),
    ("maps across number keys", {1: "a"}, {map_key(Uint(1)): "a"}, True),
    ("typed and another kind", TypedMap({}), 1, EvalError),
    ("another kind and typed", 1, TypedMap({}), False),
    ("an error inside is not unequal", [TypedMap({})], [1], True),
    ("typed and plain", TypedList([1, {"a": 2}]), [1, {"a": 2}], True),
]


@pytest.mark.parametrize(("left", "right", "expected"), [row[1:] for row in EQUALITY], ids=[row[0] for row in EQUALITY])
def test_equality(left: Any, right: Any, expected: Any) -> None:
    verdict = equal(left, right)
    assert isinstance(verdict, EvalError) if expected is EvalError else verdict is expected


def test_order_of_what_has_none() -> None:
    assert result_of(compare, math.nan, 1) == "NaN values cannot be ordered"
    assert result_of(compare, 1, "a") == "no such overload"
    assert result_of(compare, True, 1) == "no such overload"


def test_keys_that_python_confuses() -> None:
    mapping = {map_key(True): "bool", map_key(1): "int", map_key(Uint(2)): "uint"}
    assert len(mapping) == 3
    assert [find(mapping, key) for key in (True, 1, 1.0, 2, Uint(2))] == [
        (True, "bool"),
        (True, "int"),
        (True, "int"),
        (True, "uint"),
        (True, "uint"),
    ]
    assert MapKey(True) != MapKey(1)


DURATIONS = [
    ("1h30m", 5_400_000_000_000),
    ("-1.5s", -1_500_000_000),
    ("1.0000000005s", 1_000_000_000),
    ("1µs", 1000),
    ("0", 0),
    ("", None),
    ("1", None),
    ("1d", None),
    (".s", None),
    ("9223372036854775807ns", BIG),
    ("9223372036854775808ns", None),
    ("-9223372036854775808ns", -BIG - 1),
]


@pytest.mark.parametrize(("text", "nanos"), DURATIONS)
def test_durations(text: str, nanos: int | None) -> None:
    assert parse_duration(text) == (None if nanos is None else Duration(nanos))


TIMESTAMPS = [
    ("2023-01-02T03:04:05Z", "2023-01-02T03:04:05Z"),
    ("2023-01-02T03:04:05.120+02:00", "2023-01-02T03:04:05.12+02:00"),
    ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
    ("0000-12-31T23:59:59Z", "timestamp overflow"),
    ("9999-12-31T23:59:59-01:00", "timestamp overflow"),
    ("2023-02-29T00:00:00Z", None),
    ("2023-01-02 03:04:05Z", None),
    ("2023-01-02T03:04:60Z", None),
]


@pytest.mark.parametrize(("text", "expected"), TIMESTAMPS)
def test_timestamps(text: str, expected: str | None) -> None:
    instant = result_of(parse_timestamp, text)
    assert (instant.text() if isinstance(instant, Timestamp) else instant) == expected


def test_fields_of_time() -> None:
    instant = parse_timestamp("2023-03-26T00:30:00Z")
    assert instant is not None
    assert [
        field(instant, name) for name in ("getFullYear", "getMonth", "getDate", "getDayOfWeek", "getDayOfYear")
    ] == [
        2023,
        2,
        26,
        0,
        84,
    ]
    assert field(instant, "getHours", "Europe/Berlin") == 1
    assert field(add_duration(instant, Duration(3600 * 10**9)), "getHours", "Europe/Berlin") == 3
    assert field(instant, "getHours", "-02:30") == 22
    assert result_of(field, instant, "getHours", "Nope/Zone") == "unknown time zone Nope/Zone"
    assert result_of(field, instant, "getHours", "2:3x") == 'strconv.Atoi: parsing "3x": invalid syntax'
    assert [
        duration_field(Duration(-3_723_500_000_000), f"get{unit}") for unit in ("Hours", "Minutes", "Milliseconds")
    ] == [
        -1,
        -62,
        -3_723_500,
    ]


TEXTS = [
    (1e6, "1e+06"),
    (123456.0, "123456"),
    (1e-5, "1e-05"),
    (0.0001, "0.0001"),
    (9007199254740992.0, "9.007199254740992e+15"),
    (-0.0, "-0"),
    (math.inf, "+Inf"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_doubles_as_text(value: float, text: str) -> None:
    assert general_text(value) == text
    assert display(value) == text


def test_other_values_as_text() -> None:
    assert [display(value) for value in (None, True, b"\x01\x02", [1, "a"], {"k": 1.5})] == [
        "NULL_VALUE",
        "true",
        "[1 2]",
        "[1, a]",
        "{k: 1.5}",
    ]
    assert [go_duration(nanos) for nanos in (0, 1_500, -90_000_000_000, 3_600_000_000_000)] == [
        "0s",
        "1.5µs",
        "-1m30s",
        "1h0m0s",
    ]


CONVERSIONS = [
    (conversion.to_int, "0x10", "type conversion error from 'string' to 'int'"),
    (conversion.to_int, "+0012", 12),
    (conversion.to_int, 1e19, "integer overflow"),
    (conversion.to_uint, "-1", "type conversion error from 'string' to 'uint'"),
    (conversion.to_double, "1_000.5", 1000.5),
    (conversion.to_double, " 1", "type conversion error from 'string' to 'double'"),
    (conversion.to_double, "0x1p-2", 0.25),
    (conversion.to_double, "1e400", "type conversion error from 'string' to 'double'"),
    (conversion.to_bool, "yes", "type conversion error from 'string' to 'bool'"),
    (conversion.to_string, b"\xff", "invalid UTF-8 in bytes, cannot convert to string"),
    (conversion.to_string, Duration(1_500_000_000), "1.5s"),
]


@pytest.mark.parametrize(("function", "value", "expected"), CONVERSIONS)
def test_conversions(function: Any, value: Any, expected: Any) -> None:
    assert result_of(function, value) == expected


PATTERNS = [
    ("[a-", "error parsing regexp: missing closing ]: `[a-`"),
    ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
    ("*", "error parsing regexp: missing argument to repetition operator: `*`"),
    ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
    ("\\C", "error parsing regexp: invalid escape sequence: `\\C`"),
    ("\\", "error parsing regexp: trailing backslash at end of expression: ``"),
]


@pytest.mark.parametrize(("pattern", "error"), PATTERNS)
def test_patterns_that_are_wrong(pattern: str, error: str) -> None:
    assert result_of(compile_pattern, pattern) == error


def test_matching_takes_linear_time() -> None:
    assert matches("a" * 5000 + "!", "^(a+)+$") is False
