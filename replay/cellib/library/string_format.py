"""`'...'.format([...])` of cel-go's strings library up to its version 3 (`ext/formatting.go`).

The versions of the library that Kubernetes enables format doubles with the rules of the locale en_US
(`golang.org/x/text`). `%f` groups thousands. `%e` writes a power of ten in superscripts, and its precision is a minimal
width.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from replay.cel.value.bounds import Steps, joined
from replay.cel.value.conversion import to_double, to_string
from replay.cel.value.equality import elements, find, map_keys
from replay.cel.value.text import type_name
from replay.cel.value.timestamp import Duration, Timestamp
from replay.cel.value.values import EvalError, TypeValue, Uint, Value
from replay.go.format import positional, quote, shortest_digits

_DEFAULT_PRECISION = 6
_INT64_MAX = 2**63 - 1
_LIMIT = 1_000_000
"""Number above which x/text stops reading the digits of a width or precision."""
_NO_VERB = "%!(NOVERB)"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NON_FINITE = ("NaN", "Infinity", "-Infinity")

_CLAUSE = re.compile(r"%(?:(%)|(?:\.([0-9]*))?(.)?)", re.DOTALL)


NARROW_SPACE = "\u202f"


def format_string(template: str, args: Value, exponent_space: str = "") -> str:
    """Return the template with each `%` clause replaced by an argument. Raises `EvalError` with the server's text.

    `exponent_space` is written on both sides of the sign before a power of ten.
    """
    values = list(elements(args))
    return joined("", _parts(template, values, Steps(), exponent_space))


def _parts(template: str, values: list[Value], steps: Steps, exponent_space: str) -> Iterator[str]:
    position = used = 0
    for match in _CLAUSE.finditer(template):
        yield template[position : match.start()]
        position = match.end()
        if match[1]:
            yield "%"
            continue
        if used >= len(values):
            raise EvalError(f"index {used} out of range")
        yield _clause(match, values[used], steps, exponent_space)
        used += 1
    yield template[position:]


def _clause(match: re.Match[str], value: Value, steps: Steps, exponent_space: str) -> str:
    precision, verb = match[2], match[3]
    if verb is None and precision is None:
        raise EvalError("unexpected end of string")
    try:
        formatter = _formatter(precision, verb, steps, exponent_space)
    except EvalError as error:
        raise EvalError(f"could not parse formatting clause: {error.message}") from None
    try:
        return formatter(value)
    except EvalError as error:
        raise EvalError(f"error during formatting: {error.message}") from None


def _formatter(precision: str | None, verb: str | None, steps: Steps, exponent_space: str) -> Callable[[Value], str]:
    digits = _precision(precision, verb)
    if verb == "s":
        return lambda value: _text(value, steps)
    simple = {"d": _decimal, "b": _binary, "o": _octal}.get(verb or "")
    if simple is not None:
        return simple
    if verb == "f":
        return lambda value: _fixed(_number(value, "fixed-point"), digits)
    if verb == "e":
        return lambda value: _scientific(_number(value, "scientific"), digits, exponent_space)
    if verb in ("x", "X"):
        return lambda value: _hex(value).upper() if verb == "X" else _hex(value)
    # cel-go looks at bytes: of a longer character it shows the first one, as Latin-1.
    first = (verb or "").encode("utf-8", "surrogateescape")[:1].decode("latin-1")
    raise EvalError(f'unrecognized formatting clause "{first}"')


def _precision(precision: str | None, verb: str | None) -> int:
    if precision is None:
        return _DEFAULT_PRECISION
    problem = ""
    if verb is None:
        problem = "could not find end of precision specifier"
    elif not precision:
        problem = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    # The length goes first, because `int` refuses very long texts.
    elif len(precision.lstrip("0")) > 19 or int(precision[-19:]) > _INT64_MAX:
        problem = (
            f'error while converting precision to integer: strconv.Atoi: parsing "{precision}": value out of range'
        )
    if problem:
        raise EvalError(f"error while parsing precision: {problem}")
    return int(precision[-19:])


def _text(value: Value, steps: Steps) -> str:
    kind = type_name(value)
    if kind == "list":
        return "[" + joined(", ", (_literal(element, steps) for element in steps.each(elements(value)))) + "]"
    if kind == "map":
        return _map_text(value, steps)
    if value is None or isinstance(value, TypeValue):
        return "null" if value is None else value.name
    if kind not in _TEXT_TYPES:
        raise EvalError(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
            f"and timestamps, was given {kind}"
        )
    try:
        return str(to_string(value))
    except EvalError as error:
        raise EvalError(f"could not convert argument {quote(error.message)} to string") from None


_TEXT_TYPES = {
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "type",
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
}


def _map_text(value: Value, steps: Steps) -> str:
    entries = []
    for key in steps.each(map_keys(value)):
        kind = type_name(key)
        if kind not in ("string", "bool", "int", "uint"):
            raise EvalError(f"no formatting function for map key of type {kind}")
        entries.append((_literal(key, steps), _literal(find(value, key)[1], steps)))
    # Go compares bytes. Code points would order texts that are not UTF-8 differently.
    entries.sort(key=lambda entry: entry[0].encode("utf-8", "surrogateescape"))
    return "{" + joined(", ", (f"{key}:{text}" for key, text in entries)) + "}"


def _literal(value: Value, steps: Steps) -> str:  # noqa: PLR0911 - one return a kind
    """Return a value inside a list or map, as an expression could write it."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return "b" + quote(_text(value, steps))
    if isinstance(value, float):
        if math.isfinite(value):
            return f"{value:.6f}"
        return '"NaN"' if math.isnan(value) else ('"+Inf"' if value > 0 else '"-Inf"')
    if isinstance(value, Timestamp):
        return f"timestamp({quote(_text(value, steps))})"
    if isinstance(value, Duration):
        return f"duration({quote(_text(value, steps))})"
    kind = type_name(value)
    if value is not None and kind not in ("list", "map") and kind not in _TEXT_TYPES:
        raise EvalError(f"no formatting function for {kind}")
    return _text(value, steps)


def _decimal(value: Value) -> str:
    if type(value) is int or type(value) is Uint:
        return str(int(value))
    raise EvalError(f"decimal clause can only be used on integers, was given {type_name(value)}")


def _binary(value: Value) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return format(int(value), "b")
    raise EvalError(f"only integers and bools can be formatted as binary, was given {type_name(value)}")


def _octal(value: Value) -> str:
    if type(value) is int or type(value) is Uint:
        return format(int(value), "o")
    raise EvalError(f"octal clause can only be used on integers, was given {type_name(value)}")


def _hex(value: Value) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").hex()
    if type(value) is int or type(value) is Uint:
        return format(int(value), "x")
    raise EvalError(f"only integers, byte buffers, and strings can be formatted as hex, was given {type_name(value)}")


def _number(value: Value, clause: str) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in _NON_FINITE:
        return float(to_double(value))
    raise EvalError(f"{clause} clause can only be used on doubles, was given {type_name(value)}")


def _is_too_long(number: int) -> bool:
    return any(int(str(number)[:length]) > _LIMIT for length in range(1, len(str(number))))


def _fixed(value: float, precision: int) -> str:
    """Return `%.<precision>f` of x/text.

    Fraction digits have an 8-bit minimum and a 16-bit maximum, and thousands are grouped.
    """
    if _is_too_long(precision):
        return _NO_VERB
    if not math.isfinite(value):
        return _special(value)
    least, most = precision & 0xFF, (precision + 0x8000) % 0x10000 - 0x8000
    sign = "-" if value < 0 else ""
    digits = f"{abs(value):.{most}f}" if most >= 0 else positional(*shortest_digits(value))
    integer, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0").ljust(least, "0")
    return f"{sign}{int(integer):,}" + (f".{fraction}" if fraction else "")


def _scientific(value: float, width: int, space: str) -> str:
    """Return `%<width>e` of x/text: always six fraction digits, and at least `width` characters."""
    if _is_too_long(width):
        return _NO_VERB
    if not math.isfinite(value):
        text = _special(value)
    else:
        mantissa, _, exponent = f"{abs(value):.6e}".partition("e")
        power = f"{'-' if exponent[0] == '-' else ''}{abs(int(exponent)):02d}".translate(_SUPERSCRIPTS)
        text = f"{'-' if value < 0 else ''}{mantissa}{space}\N{MULTIPLICATION SIGN}{space}10{power}"
    return text.rjust(width & 0xFFFF)


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "∞" if value > 0 else "-∞"
