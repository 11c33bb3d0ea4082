"""The operators `+ - * / %` and negation, by the types of their operands (cel-go `traits.Adder`, `Subtractor`, ...).

The caller has checked that the left operand has the trait. A right operand of another type is `no such overload`.
"""

from __future__ import annotations

from replay.cel.value.bounds import check_elements
from replay.cel.value.concat import ConcatList
from replay.cel.value.equality import NO_SUCH_OVERLOAD, elements, is_list
from replay.cel.value.number import (
    checked_int,
    checked_uint,
    divide_double,
    modulo_int,
    truncated_quotient,
    truncated_remainder,
)
from replay.cel.value.timestamp import (
    Duration,
    Timestamp,
    add_duration,
    checked_duration,
    subtract_duration,
    subtract_timestamp,
)
from replay.cel.value.values import EvalError, TypedList, Uint, Value


class MutableList(list[Value]):
    """The accumulator of a fold that builds a list: `accumulator + [x]` extends it in place (cel-go `mutableList`)."""

    __slots__ = ()


def add(left: Value, right: Value) -> Value:  # noqa: C901, PLR0911 - one branch a type
    """Return `left + right`."""
    kind = type(left)
    if kind is MutableList:
        if not is_list(right):
            raise EvalError(NO_SUCH_OVERLOAD)
        check_elements(len(left) + len(right))
        left.extend(elements(right))
        return left
    if is_list(left):
        if not is_list(right):
            raise EvalError(NO_SUCH_OVERLOAD)
        return _joined(left, right)
    if kind is Timestamp and type(right) is Duration:
        return add_duration(left, right)
    if kind is Duration and type(right) is Timestamp:
        return add_duration(right, left)
    _same(left, right)
    if kind is int:
        return checked_int(left + right)
    if kind is Uint:
        return checked_uint(int(left) + int(right))
    if kind is Duration:
        return checked_duration(left.nanos + right.nanos)
    if kind is Timestamp:
        raise EvalError(NO_SUCH_OVERLOAD)
    return left + right


def _joined(left: Value, right: Value) -> Value:
    """Join two lists. Only lists of built-in kinds are copied (apiserver `reflectSchemalessTypedList.Add`)."""
    if type(left) is TypedList:
        check_elements(len(left) + len(right))
        return [*elements(left), *elements(right)]
    if not len(left):
        return right
    return ConcatList(left, right) if len(right) else left


def subtract(left: Value, right: Value) -> Value:
    """Return `left - right`."""
    kind = type(left)
    if kind is Timestamp:
        if type(right) is Duration:
            return subtract_duration(left, right)
        _same(left, right)
        return subtract_timestamp(left, right)
    _same(left, right)
    if kind is int:
        return checked_int(left - right)
    if kind is Uint:
        return checked_uint(int(left) - int(right))
    return checked_duration(left.nanos - right.nanos) if kind is Duration else left - right


def multiply(left: Value, right: Value) -> Value:
    """Return `left * right`."""
    _same(left, right)
    if type(left) is int:
        return checked_int(left * right)
    return checked_uint(int(left) * int(right)) if type(left) is Uint else left * right


def divide(left: Value, right: Value) -> Value:
    """Return `left / right`: integers round toward zero, doubles follow IEEE 754."""
    _same(left, right)
    if type(left) is int:
        return checked_int(truncated_quotient(left, right))
    return Uint(truncated_quotient(int(left), int(right))) if type(left) is Uint else divide_double(left, right)


def modulo(left: Value, right: Value) -> Value:
    """Return `left % right` of two integers."""
    _same(left, right)
    if type(left) is int:
        return modulo_int(left, right)
    return Uint(truncated_remainder(int(left), int(right)))


def negate(value: Value) -> Value:
    """Return `-value`."""
    if type(value) is int:
        return checked_int(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return checked_duration(-value.nanos)
    raise EvalError(NO_SUCH_OVERLOAD)


def _same(left: Value, right: Value) -> None:
    if type(left) is not type(right):
        raise EvalError(NO_SUCH_OVERLOAD)
