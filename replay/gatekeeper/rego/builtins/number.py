"""Builtins for arithmetic, bits, ranges and aggregates (`opa/v1/topdown/{arithmetic,bits,numbers,aggregates}.go`)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from replay.gatekeeper.rego.builtins.operand import BuiltinError, builtin, plain, wrong
from replay.gatekeeper.rego.lexer import TooLargeError
from replay.gatekeeper.rego.value import (
    ORDER,
    UNDEFINED,
    Number,
    Object,
    Set,
    UnknownValue,
    Value,
    compare,
    equal,
    float_text,
    iterate,
    members_of,
    rounded,
)

_EXACT = 2**63
_WORD = 2**64
_SMALL = 1_000
_MOST_BITS = 13_000
_LONGEST_RANGE = 1_000_000


def fraction_of(value: int | Number) -> Fraction:
    """Return a number at the 64 bits of `big.Float`."""
    if type(value) is int:
        return Fraction(value) if -_EXACT < value < _EXACT else rounded(Fraction(value))
    assert isinstance(value, Number)
    return rounded(value.value)


def number(value: Fraction) -> Value:
    """Return the result of a calculation as a value. Raises TooLargeError."""
    value = rounded(value)
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise TooLargeError
    text = float_text(value)
    return int(text) if value.denominator == 1 else Number(text)


def _signed(value: Fraction, *, is_negative: bool) -> Value:
    """Return a number. Zero has a sign too: a negative zero is written `-0`."""
    return number(value) if value or not is_negative else Number("-0", Fraction(0))


def _sum_of(a: int | Number, b: int | Number, value: Fraction, *, is_minus: bool = False) -> Value:
    """Return the sum of two numbers. It is -0 if both are -0."""
    is_zero = not value and not fraction_of(a) and not (_is_small(a) and _is_small(b))
    return _signed(value, is_negative=is_zero and _is_negative(a) and _is_negative(b) is not is_minus)


def _is_negative(value: int | Number) -> bool:
    return value.text.startswith("-") if type(value) is Number else value < 0  # type: ignore[operator]


def _is_small(value: int | Number) -> bool:
    """Return whether OPA calculates with machine integers (`inSmallIntRange`)."""
    return -_SMALL < value < _SMALL if type(value) is int else value.text == "-0"  # type: ignore[union-attr]


def integer_of(value: int | Number) -> int:
    """Return a whole number. Raises BuiltinError for a fraction."""
    exact = fraction_of(value)
    if exact.denominator != 1:
        raise BuiltinError
    return int(exact)


@plain("plus", 2)
def _plus(a: Value, b: Value) -> Value:
    if type(a) is int and type(b) is int:
        found = a + b
        is_exact = -_EXACT < found < _EXACT and -_EXACT < a < _EXACT
        return found if is_exact else number(fraction_of(a) + fraction_of(b))
    if isinstance(a, int | Number) and isinstance(b, int | Number) and type(a) is not bool and type(b) is not bool:
        return _sum_of(a, b, fraction_of(a) + fraction_of(b))
    return wrong(a, b)


@plain("minus", 2)
def _minus(a: Value, b: Value) -> Value:
    if type(a) is int and type(b) is int:
        found = a - b
        is_exact = -_EXACT < found < _EXACT and -_EXACT < a < _EXACT
        return found if is_exact else number(fraction_of(a) - fraction_of(b))
    if type(a) is Set and type(b) is Set:
        return _set_of({key: value for key, value in a.members.items() if key not in b.members})
    if isinstance(a, int | Number) and isinstance(b, int | Number) and type(a) is not bool and type(b) is not bool:
        return _sum_of(a, b, fraction_of(a) - fraction_of(b), is_minus=True)
    return wrong(a, b)


@plain("mul", 2)
def _mul(a: Value, b: Value) -> Value:
    if type(a) is int and type(b) is int and (found := a * b):
        return found if -_EXACT < found < _EXACT else number(fraction_of(a) * fraction_of(b))
    if isinstance(a, int | Number) and isinstance(b, int | Number) and type(a) is not bool and type(b) is not bool:
        if _is_small(a) and _is_small(b):
            return 0
        return _signed(fraction_of(a) * fraction_of(b), is_negative=_is_negative(a) is not _is_negative(b))
    return wrong(a, b)


@builtin("div", "nn")
def _div(a: int | Number, b: int | Number) -> Value:
    divisor = fraction_of(b)
    if not divisor:
        raise BuiltinError
    return _signed(fraction_of(a) / divisor, is_negative=_is_negative(a) is not _is_negative(b))


@builtin("rem", "nn")
def _rem(a: int | Number, b: int | Number) -> Value:
    one, other = integer_of(a), integer_of(b)
    if abs(other) % _WORD == 0:  # OPA looks at the low 64 bits of the divisor
        raise BuiltinError
    found = abs(one) % abs(other)
    return -found if one < 0 else found


@builtin("abs", "n")
def _abs(a: int | Number) -> Value:
    return number(abs(fraction_of(a)))


def _whole(value: int) -> int:
    """Return an integer that OPA keeps in full. Raises TooLargeError."""
    if value.bit_length() > _MOST_BITS:
        raise TooLargeError
    return value


@builtin("round", "n")
def _round(a: int | Number) -> Value:
    exact = fraction_of(a)
    half = Fraction(1, 2)
    # As in OPA, the half is added first, at 64 bits, and the fraction is cut off then.
    return _whole(int(rounded(exact - half) if exact < 0 else rounded(exact + half)))


@builtin("ceil", "n")
def _ceil(a: int | Number) -> Value:
    exact = fraction_of(a)
    whole = int(exact)  # OPA looks at the sign of what is left without the fraction, and -0.5 leaves 0
    return _whole(whole if whole < 0 or whole == exact else whole + 1)


@builtin("floor", "n")
def _floor(a: int | Number) -> Value:
    exact = fraction_of(a)
    whole = int(exact)
    return _whole(whole if whole >= 0 or whole == exact else whole - 1)


def _set_of(members: dict[str | bytes, Value]) -> Set:
    found = Set()
    found.known = members
    return found


@plain("and", 2)
def _and(a: Value, b: Value) -> Value:
    if type(a) is Set and type(b) is Set:
        return _set_of({key: value for key, value in a.members.items() if key in b.members})
    return wrong(a, b)


@plain("or", 2)
def _or(a: Value, b: Value) -> Value:
    if type(a) is Set and type(b) is Set:
        if a.partial or b.partial:
            return Set((*a.known.values(), *a.partial, *b.known.values(), *b.partial))
        return _set_of({**b.known, **a.known})
    return wrong(a, b)


@builtin("set_diff", "tt")
def _set_diff(a: Set, b: Set) -> Value:
    return _minus(a, b)


@builtin("intersection", "t")
def _intersection(sets: Set) -> Value:
    found: Set | None = None
    for member in members_of(sets):
        if type(member) is not Set:
            raise BuiltinError
        found = member if found is None else _and(found, member)
    return Set() if found is None else found


@builtin("union", "t")
def _union(sets: Set) -> Value:
    found = Set()
    for member in members_of(sets):
        if type(member) is not Set:
            raise BuiltinError
        found = _or(found, member)
    return found


def _bits(name: str, function: Callable[[int, int], int]) -> None:
    @builtin(name, "nn")
    def bits(a: int | Number, b: int | Number) -> Value:
        return function(integer_of(a), integer_of(b))


_bits("bits.and", int.__and__)
_bits("bits.or", int.__or__)
_bits("bits.xor", int.__xor__)


@builtin("bits.negate", "n")
def _negate(a: int | Number) -> Value:
    return ~integer_of(a)


@builtin("bits.lsh", "nn")
def _lsh(a: int | Number, b: int | Number) -> Value:
    shift = integer_of(b)
    if shift < 0:
        raise BuiltinError
    if shift > _MOST_BITS:
        raise TooLargeError
    return integer_of(a) << shift


@builtin("bits.rsh", "nn")
def _rsh(a: int | Number, b: int | Number) -> Value:
    shift = integer_of(b)
    if shift < 0:
        raise BuiltinError
    return integer_of(a) >> shift


@builtin("numbers.range", "nn")
def _range(a: int | Number, b: int | Number) -> Value:
    return _stepped(integer_of(a), integer_of(b), 1)


@builtin("numbers.range_step", "nnn")
def _range_step(a: int | Number, b: int | Number, step: int | Number) -> Value:
    by = integer_of(step)
    if by <= 0:
        raise BuiltinError
    return _stepped(integer_of(a), integer_of(b), by)


def _stepped(first: int, last: int, step: int) -> Value:
    if abs(last - first) // step > _LONGEST_RANGE:
        raise TooLargeError
    return list(range(first, last + 1, step) if first <= last else range(first, last - 1, -step))


@plain("count", 1)
def _count(value: Value) -> Value:
    kind = type(value)
    if kind is list or kind is str:
        return len(value)
    if kind is dict:
        # A field with an unknown value may also be absent.
        return len(value) if UnknownValue not in map(type, value.values()) else wrong(*value.values())
    if kind is Set:
        return value.size
    return len(value.entries) if kind is Object else wrong(value)


def _numbers(values: Value) -> list[int | Number]:
    found = list(iterate(values))
    for value in found:
        if type(value) not in (int, Number):
            wrong(value)
            raise BuiltinError
    return found


@builtin("sum", "c")
def _sum(values: Value) -> Value:
    found = _numbers(values)
    if all(type(value) is int and -_EXACT <= value < _EXACT for value in found):
        # OPA adds machine integers, which wrap around silently.
        return (sum(found) + _EXACT) % (2 * _EXACT) - _EXACT  # type: ignore[arg-type]
    total = Fraction(0)
    for value in found:
        total = rounded(total + fraction_of(value))
    return number(total)


@builtin("product", "c")
def _product(values: Value) -> Value:
    total, is_negative = Fraction(1), False
    for value in _numbers(values):
        total = rounded(total * fraction_of(value))
        if total.numerator.bit_length() > _MOST_BITS:
            raise TooLargeError
        is_negative ^= _is_negative(value)
    return _signed(total, is_negative=is_negative)


@builtin("max", "c")
def _max(values: Value) -> Value:
    best: Value = UNDEFINED
    for value in iterate(values):
        if best is UNDEFINED or compare(best, value) <= 0:
            best = value
    return best


@builtin("min", "c")
def _min(values: Value) -> Value:
    best: Value = UNDEFINED
    is_set = type(values) is Set
    for value in iterate(values):
        # OPA starts the minimum of a set from null, so a null in the set never stays the minimum.
        if best is UNDEFINED or (is_set and best is None) or compare(best, value) >= 0:
            best = value
    return best


@builtin("sort", "c")
def _sort(values: Value) -> Value:
    return members_of(values) if type(values) is Set else sorted(values, key=ORDER)


@builtin("all", "c")
def _all(values: Value) -> Value:
    return all(equal(value, True) for value in iterate(values))


@builtin("any", "c")
def _any(values: Value) -> Value:
    return any(equal(value, True) for value in iterate(values))


@plain("to_number", 1)
def _to_number(value: Value) -> Value:
    if value is None or type(value) is bool:
        return 1 if value else 0
    if type(value) in (int, Number):
        return value
    if type(value) is not str:
        return wrong(value)
    return parsed_number(value)


def parsed_number(text: str) -> Value:
    """Return the number of a text as `strconv.ParseFloat` parses it, or undefined for another text.

    The number keeps the text's spelling.
    """
    from replay.gatekeeper.rego.builtins.number_text import ParsedNumberError, parse_float  # noqa: PLC0415

    try:
        return parse_float(text)
    except ParsedNumberError:
        return UNDEFINED


def _relation(name: str, holds: Callable[[int], bool]) -> None:
    @plain(name, 2)
    def relation(a: Value, b: Value) -> Value:
        return holds(compare(a, b))


_relation("equal", lambda order: order == 0)
_relation("neq", lambda order: order != 0)
_relation("lt", lambda order: order < 0)
_relation("lte", lambda order: order <= 0)
_relation("gt", lambda order: order > 0)
_relation("gte", lambda order: order >= 0)
