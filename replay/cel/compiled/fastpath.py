"""Helpers of compiled expressions: operations on plain decoded JSON that answer only the usual cases.

Anything unusual raises: a missing key, another type, a number out of range, a long text whose cost would have to be
counted. The expression is then evaluated again by the strict engine, which alone reports errors. So a helper must
either give exactly the strict result or raise. Which exception does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, NoReturn

from replay.cel.value import arithmetic
from replay.cel.value.bounds import Steps
from replay.cel.value.equality import compare, equal
from replay.cel.value.number import INT_MAX, INT_MIN
from replay.cel.value.regexp import compile_pattern
from replay.cel.value.text import type_name
from replay.cel.value.timestamp import Duration, Timestamp
from replay.cel.value.traits import has_trait
from replay.cel.value.values import OPTIONAL_NONE, EvalError, OptionalValue, Unknown, Value

LONG = 1000
"""Longer texts and lists are left to the strict engine, so that the cost of one step has a bound."""

MAX_COST = 1000
"""The highest cost of one call of a library function in compiled code."""

REMEMBERED = 4096
"""The most results that one place in an expression remembers."""

LOOP_LIMIT = 200_000
"""The highest total cost of the loops of one expression in compiled code."""


_MOMENTS = frozenset({Timestamp, Duration})


class LeaveError(Exception):
    """Input that compiled code does not handle. The strict engine must evaluate it."""


class _Absent:
    """The value of `optional.none()` in compiled code, where an optional is either its value or this."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()

SCALARS = frozenset({str, int, bool, float, type(None)})
"""The Python types of JSON values that are not containers."""


def leave() -> NoReturn:
    """Leave the evaluation to the strict engine."""
    raise LeaveError


def truth(value: Value) -> bool:
    """Return a value that must be a bool. Raises `LeaveError` for others."""
    if value is True or value is False:
        return value is True
    raise LeaveError


def is_number(value: Value) -> bool:
    """Return whether a value is an int or a double that can be ordered. Raises `LeaveError` if it is out of range."""
    kind = type(value)
    if kind is int:
        if INT_MIN <= value <= INT_MAX:
            return True
        raise LeaveError
    if kind is float:
        if value == value:  # noqa: PLR0124 - not NaN
            return True
        raise LeaveError
    return False


def same(left: Value, right: Value, steps: Steps | None = None) -> bool:
    """Return `left == right` of any two values.

    Containers of built-in kinds equal plain ones, except next to a value of another type: then this leaves. `steps`
    limits how many parts are compared, None for the full allowance.
    """
    # Exact types throughout: bool is a subclass of int in Python, and Kubernetes' own values are subclasses of str and dict.
    kind, other = type(left), type(right)
    if kind is str or kind is bool or left is None:
        if kind is other:
            return bool(left == right)
        return False if other in SCALARS else _mixed(left, right)
    if kind is dict and other is dict:
        return _same_maps(left, right, steps or Steps())
    if kind is list and other is list:
        if len(left) > LONG:
            raise LeaveError
        # The allowance is shared by all levels: nested lists of a thousand elements each would else take for ever.
        steps = steps or Steps()
        steps.take(len(left))
        return len(left) == len(right) and all(map(same, left, right, repeat(steps)))
    if other in SCALARS and (kind is int or kind is float):
        return _same_numbers(left, right)
    return _mixed(left, right)


def _same_numbers(left: Value, right: Value) -> bool:
    if type(right) is int or type(right) is float:
        if is_number(left) and is_number(right):
            return equal(left, right) is True
        raise LeaveError
    return False


def _same_maps(left: dict[Value, Value], right: dict[Value, Value], steps: Steps) -> bool:
    if len(left) != len(right):
        return False
    if len(left) > LONG:
        raise LeaveError
    steps.take(len(left))
    return all(key in right and same(value, right[key], steps) for key, value in left.items())


def _mixed(left: Value, right: Value) -> bool:
    if type(left) in (dict, list) or type(right) in (dict, list):
        raise LeaveError
    verdict = equal(left, right)
    if type(verdict) is not bool:
        raise LeaveError
    return verdict


def order(left: Value, right: Value) -> int:
    """Return -1, 0 or 1 for two values of one type, or two numbers."""
    kind = type(left)
    if kind is str and type(right) is str and len(left) <= LONG:
        return int(left > right) - int(left < right)
    if is_number(left) and is_number(right):
        return compare(left, right)
    if kind is type(right) and kind not in (dict, list, str):
        return compare(left, right)
    raise LeaveError


def add(left: Value, right: Value) -> Value:
    """Return `left + right` of numbers, texts, lists or times."""
    kind = type(left)
    if kind is not type(right) and kind not in _MOMENTS:
        raise LeaveError
    if kind is str and len(left) + len(right) <= LONG:
        return left + right
    if kind is int and is_number(left) and is_number(right):
        return in_range(left + right)
    if kind is float or (kind is list and len(left) + len(right) <= LONG):
        return left + right
    if kind in _MOMENTS:
        return arithmetic.add(left, right)
    raise LeaveError


def in_range(value: int) -> int:
    """Return an int that must be within the range of CEL. Raises `LeaveError` for others."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise LeaveError


def subtract(left: Value, right: Value) -> Value:
    """Return `left - right` of numbers or times."""
    if type(left) is type(right) is int and is_number(left) and is_number(right):
        return in_range(left - right)
    if type(left) in _MOMENTS or type(left) is type(right) is float:
        return arithmetic.subtract(left, right)
    raise LeaveError


def divide(left: Value, right: Value) -> Value:
    """Return `left / right` of ints or doubles."""
    if type(left) is type(right) is int and is_number(left) and is_number(right):
        return in_range(arithmetic.divide(left, right))
    if type(left) is type(right) is float:
        return arithmetic.divide(left, right)
    raise LeaveError


def modulo(left: Value, right: Value) -> Value:
    """Return `left % right` of ints."""
    if type(left) is type(right) is int and is_number(left) and is_number(right):
        return arithmetic.modulo(left, right)
    raise LeaveError


def multiply(left: Value, right: Value) -> Value:
    """Return `left * right` of ints or doubles."""
    if type(left) is type(right) is int and is_number(left) and is_number(right):
        return in_range(left * right)
    if type(left) is type(right) is float:
        return left * right
    raise LeaveError


def index(container: Value, key: Value) -> Value:
    """Return `container[key]` of a list by int or a map by text."""
    if type(key) is str and type(container) is dict:
        return container[key]
    # A negative index counts from the end in Python. In CEL it is an error.
    if type(key) is int and type(container) is list and key >= 0:
        return container[key]
    raise LeaveError


def member(element: Value, container: Value) -> bool:
    """Return `element in container` for a text in a list or map, or any value in a list."""
    kind = type(container)
    # Python's `in` compares with ==, which is CEL's equality for texts only.
    if type(element) is str and (kind is dict or (kind is list and len(container) <= LONG)):
        return element in container
    if kind is list and len(container) <= LONG:
        return any(same(element, item) for item in container)
    raise LeaveError


def contains(text: Value, part: Value) -> bool:
    """Return `text.contains(part)`."""
    if type(text) is str and type(part) is str and len(text) <= LONG and len(part) <= LONG:
        return part in text
    raise LeaveError


def starts_with(text: Value, part: Value) -> bool:
    """Return `text.startsWith(part)`."""
    if type(text) is str and type(part) is str and len(text) <= LONG and len(part) <= LONG:
        return text.startswith(part)
    raise LeaveError


def ends_with(text: Value, part: Value) -> bool:
    """Return `text.endsWith(part)`."""
    if type(text) is str and type(part) is str and len(text) <= LONG and len(part) <= LONG:
        return text.endswith(part)
    raise LeaveError


def with_trait(function: Callable[..., Value], trait: str) -> Callable[..., Value]:
    """Return a function that leaves if its first argument lacks a trait."""

    def call_if(*args: Value) -> Value:
        if not has_trait(args[0], trait):
            raise LeaveError
        return function(*args)

    return call_if


def part(container: Value, key: Value) -> Value:
    """Return `container.?key` or `container[?key]`: the value, or `ABSENT`."""
    if container is ABSENT:
        return ABSENT
    kind = type(container)
    if kind is dict and type(key) is str:
        return container.get(key, ABSENT)
    if kind is list and type(key) is int:
        return container[key] if 0 <= key < len(container) else ABSENT
    # Not a list: with any other key than an int it is an error, which the strict engine words.
    if kind is str or container is None or kind is bool:
        return ABSENT
    raise LeaveError


def optional(value: Value) -> OptionalValue:
    """Return an optional of compiled code as a CEL value."""
    return OPTIONAL_NONE if value is ABSENT else OptionalValue(value)


def from_optional(value: Value) -> Value:
    """Return an optional CEL value as compiled code holds it."""
    if type(value) is OptionalValue:
        return value.value if value.has_value else ABSENT
    raise LeaveError


def present(value: Value) -> Value:
    """Return `optional.value()`."""
    if value is ABSENT:
        raise LeaveError
    return value


def non_zero(value: Value) -> Value:
    """Return `optional.ofNonZeroValue(value)`. Raises `LeaveError` for containers: those of built-in kinds are never zero."""
    if type(value) in SCALARS:
        return value or ABSENT
    raise LeaveError


def scalar(value: Value) -> Value:
    """Return a value that is no container: inside a new object it matters whether one is of a built-in kind."""
    if type(value) in (dict, list):
        raise LeaveError
    return value


def kind_of(value: Value) -> str:
    """Return the type name of a value."""
    # JSON numbers beyond 64 bits are doubles in Go, and ints for Python's decoder.
    if type(value) is int:
        return "int" if INT_MIN <= value <= INT_MAX else "double"
    return type_name(value)


def call(function: Callable[..., Value], cost: Callable[..., int] | None, *args: Value) -> Value:
    """Call a library function whose cost stays under `MAX_COST`, without nested containers as arguments."""
    for arg in args:
        if type(arg) in (dict, list):
            _check_flat(arg)
        elif arg is ABSENT or (type(arg) is int and not INT_MIN <= arg <= INT_MAX):
            raise LeaveError
    result = function(*args)
    if type(result) in (EvalError, Unknown) or (cost is not None and not 0 <= cost(args, result) <= MAX_COST):
        raise LeaveError
    return result


def remembering(function: Callable[..., Value], cost: Callable[..., int] | None) -> Callable[..., Value]:
    """Return `call` for one function, with results remembered for texts: images, amounts and names often recur.

    Library functions have no side effects and nobody changes their results. Only texts are keys, because other equal
    values, such as 1 and 1.0, are not the same in CEL.
    """
    results: dict[tuple[Value, ...], Value] = {}

    def remembered(*args: Value) -> Value:
        # Other values may not be hashable, and asking costs more than the call.
        if type(args[0]) is not str:
            return call(function, cost, *args)
        result = results.get(args)
        if result is None:
            result = call(function, cost, *args)
            if len(results) < REMEMBERED and all(type(arg) is str and len(arg) <= LONG for arg in args):
                results[args] = result
        return result

    return remembered


def _check_flat(value: Value) -> None:
    if type(value) is dict or len(value) > LONG:
        raise LeaveError
    for item in value:
        kind = type(item)
        if kind is dict or kind is list or (kind is int and not INT_MIN <= item <= INT_MAX):
            raise LeaveError


def searcher(pattern: str) -> Callable[[Any], bool]:
    """Return `text.matches(pattern)` for one pattern, with answers remembered by text."""
    search = compile_pattern(pattern).search
    answers: dict[str, bool] = {}

    def matches(text: Any) -> bool:
        if text in answers:
            return answers[text]
        if type(text) is not str or len(text) > LONG:
            raise LeaveError
        is_match = search(text) is not None
        if len(answers) < REMEMBERED:
            answers[text] = is_match
        return is_match

    return matches
