"""Equality, order and membership of values (cel-go `common/types`; language definition, "Equality" and "Ordering").

Equality in cel-go is not symmetric for opaque and typed values: the left operand decides. The answer is True, False or
an `EvalError` *as a value*, because containers treat an error between two elements as "not unequal".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from replay.cel.value.bounds import Steps
from replay.cel.value.concat import ConcatList
from replay.cel.value.number import INT_MAX
from replay.cel.value.text import go_type_name
from replay.cel.value.timestamp import Duration, Timestamp
from replay.cel.value.values import (
    EvalError,
    MapKey,
    ObjectValue,
    OpaqueValue,
    OptionalValue,
    PanicError,
    TypedList,
    TypedMap,
    TypeValue,
    Uint,
    Value,
    plain_key,
    typed,
)

NO_SUCH_OVERLOAD = "no such overload"
NAN_ORDER = "NaN values cannot be ordered"

Equality = bool | EvalError


def equal(left: Value, right: Value, steps: Steps | None = None) -> Equality:
    """Return `left == right` (cel-go `types.Equal`): null equals only null, otherwise the left operand decides.

    `steps` limits how many elements are compared, None for the full allowance. Raises `UndeterminedError` when it is
    used up.
    """
    if left is None or right is None:
        return left is right
    return value_equal(left, right, steps)


def value_equal(  # noqa: PLR0911, PLR0912, C901 - one return a kind
    left: Value, right: Value, steps: Steps | None = None
) -> Equality:
    """Compare by the left operand's own equality (cel-go `ref.Val.Equal`). `steps` is as in `equal`."""
    kind = type(left)
    if kind is str or kind is bool or kind is bytes:
        return type(right) is kind and bool(left == right)
    if kind is int or kind is Uint or kind is float:
        return _numbers_equal(left, right)
    if left is None:
        return right is None
    if steps is None:
        steps = Steps()
    if kind is list or kind is dict:
        return _list_equal(left, right, steps) if kind is list else _map_equal(left, right, steps)
    if kind is TypedList or kind is TypedMap:
        return _typed_equal(left, right, steps)
    if kind is ConcatList:
        return _concat_equal(left, right, steps)
    if isinstance(left, OptionalValue):
        return _optional_equal(left, right, steps)
    if isinstance(left, TypeValue):
        return isinstance(right, TypeValue) and left.name == right.name
    if isinstance(left, Timestamp | Duration):
        return type(left) is type(right) and left == right
    if isinstance(left, EvalError):
        return left
    if isinstance(left, OpaqueValue):
        return _opaque_equal(left, right)
    if isinstance(left, ObjectValue):
        return _object_equal(left, right, steps)
    return _list_equal(left, right, steps) if isinstance(left, list | tuple) else _map_equal(left, right, steps)


def _opaque_equal(left: OpaqueValue, right: Value) -> Equality:
    try:
        return bool(left.equal(right))
    except EvalError as error:
        return error


def _optional_equal(left: OptionalValue, right: Value, steps: Steps) -> Equality:
    if not isinstance(right, OptionalValue):
        return False
    if not (left.has_value and right.has_value):
        return left.has_value == right.has_value
    return value_equal(left.value, right.value, steps)


def _numbers_equal(left: float, right: Value) -> bool:
    kind = type(right)
    if kind is not int and kind is not Uint and kind is not float:
        return False
    if left != left or right != right:  # noqa: PLR0124 - NaN
        return False
    return compare_numbers(left, right) == 0


def compare_numbers(left: float, right: float) -> int:
    """Return -1, 0 or 1. A double and an integer are compared as doubles if the double is in the integer's range."""
    if isinstance(left, float) != isinstance(right, float):
        if isinstance(left, float):
            return _compare_double(left, right)
        return -_compare_double(right, left)
    return (left > right) - (left < right)


def _compare_double(left: float, right: float) -> int:
    low, high = (0.0, float(2**64)) if isinstance(right, Uint) else (-float(2**63), float(INT_MAX))
    if left < low:
        return -1
    if left > high:
        return 1
    rounded = float(right)
    return (left > rounded) - (left < rounded)


def _list_equal(left: Value, right: Value, steps: Steps) -> Equality:
    if not is_list(right) or len(left) != len(right):
        return False
    pairs = zip(elements(left), elements(right), strict=True)
    return all(equal(a, b, steps) is not False for a, b in steps.each(pairs))


def _concat_equal(left: ConcatList, right: Value, steps: Steps) -> Equality:
    """Compare a joined list: unlike other lists it passes on an error between elements, if no two elements are unequal."""
    if not is_list(right) or len(left) != len(right):
        return False
    failed: Equality = True
    for a, b in steps.each(zip(left.all(), every_element(right), strict=True)):
        verdict = equal(a, b, steps)
        if verdict is False:
            return False
        if failed is True and isinstance(verdict, EvalError):
            failed = verdict
    return failed


def _map_equal(left: Value, right: Value, steps: Steps) -> Equality:
    if not is_map(right) or map_size(left) != map_size(right):
        return False
    steps.take(map_size(left))
    for key, value in left.items():
        has_key, other = find(right, plain_key(key))
        if not has_key or equal(value, other, steps) is False:
            return False
    return True


def _typed_equal(left: TypedList | TypedMap, right: Value, steps: Steps) -> Equality:  # noqa: PLR0911 - one return a reason
    if isinstance(left, TypedList):
        if not is_list(right):
            return EvalError(NO_SUCH_OVERLOAD)
        return len(left) == len(right) and all(
            value_equal(a, b, steps) is True for a, b in steps.each(zip(left, elements(right), strict=True))
        )
    if not is_map(right):
        return EvalError(NO_SUCH_OVERLOAD)
    if map_size(left) != map_size(right):
        return False
    both_typed = isinstance(right, TypedMap)
    for key, value in left.value.items():
        has_key, other = find(right, key)
        if not has_key:
            return False
        verdict = value_equal(typed(value), other, steps)
        if verdict is not True:
            # Two structs are compared by Go, which knows no error; a struct with a map passes on what it got.
            return False if both_typed else verdict
    return True


def _object_equal(left: ObjectValue, right: Value, steps: Steps) -> Equality:
    """Compare objects built by an expression: they must have the same type, which decides how they are compared."""
    if not isinstance(right, ObjectValue) or left.type_name != right.type_name:
        return False
    verdict: Equality = left.equal_by(right, lambda a, b: equal(a, b, steps))
    return verdict


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1 for operands that have an order. Raises `EvalError` for others (cel-go `traits.Comparer`)."""
    kind = type(left)
    if kind is int or kind is Uint or kind is float:
        return _ordered_numbers(left, right)
    if type(right) is not kind:
        raise EvalError(NO_SUCH_OVERLOAD)
    if kind is str:
        return compare_strings(left, right)
    if kind is Timestamp:
        a, b = (left.seconds, left.nanos), (right.seconds, right.nanos)
        return (a > b) - (a < b)
    if kind is Duration:
        return int(left.nanos > right.nanos) - int(left.nanos < right.nanos)
    if kind is bool or kind is bytes:
        return int(left > right) - int(left < right)
    if isinstance(left, OpaqueValue) and hasattr(left, "compare"):
        return int(left.compare(right))
    raise EvalError(NO_SUCH_OVERLOAD)


def compare_strings(left: str, right: str) -> int:
    """Compare by code points, which is the same order as by UTF-8 bytes."""
    return (left > right) - (left < right)


def _ordered_numbers(left: float, right: Value) -> int:
    # A NaN on the left is reported before the type of the right operand is looked at.
    if left != left:  # noqa: PLR0124 - NaN
        raise EvalError(NAN_ORDER)
    kind = type(right)
    if kind is not int and kind is not Uint and kind is not float:
        raise EvalError(NO_SUCH_OVERLOAD)
    if right != right:  # noqa: PLR0124 - NaN
        raise EvalError(NAN_ORDER)
    return compare_numbers(left, right)


def is_list(value: Value) -> bool:
    """Return whether a value is a list (cel-go `traits.Lister`)."""
    return isinstance(value, list | tuple | TypedList | ConcatList)


def is_map(value: Value) -> bool:
    """Return whether a value is a map (cel-go `traits.Mapper`), such as the map of variables."""
    return isinstance(value, dict | TypedMap) or hasattr(value, "find_key")


def elements(value: Value) -> Iterator[Value]:
    """Return the elements of a list. Raises `UndeterminedError` if they are too many to walk through in one call."""
    return iter(value)


def every_element(value: Value) -> Iterator[Value]:
    """Return the elements of a list, however many: for elements that are charged or counted one by one."""
    return value.all() if type(value) is ConcatList else iter(value)


def map_size(value: Value) -> int:
    """Return the number of entries of a map."""
    return len(value)


def map_keys(value: Value) -> Iterator[Value]:
    """Return the keys of a map, as CEL values."""
    if isinstance(value, TypedMap):
        return iter(value.value)
    return map(plain_key, value)


def find(mapping: Value, key: Value) -> tuple[bool, Value]:
    """Return `(found, value)` for a key in a map. A value may be an `EvalError` or an unknown.

    A number also finds the entry of an equal integer of the other type, as in cel-go `refValMapAccessor.Find`.
    """
    kind = type(key)
    if isinstance(mapping, TypedMap):
        if kind is not str:
            return True, EvalError(f"unsupported map key type: {go_type_name(key)}")
        return (True, typed(mapping.value[key])) if key in mapping.value else (False, None)
    if not isinstance(mapping, dict):
        result: tuple[bool, Value] = mapping.find_key(key)
        return result
    if kind is str:
        return (True, mapping[key]) if key in mapping else (False, None)
    return _find_by_candidates(mapping, key)


def _find_by_candidates(mapping: dict[Value, Value], key: Value) -> tuple[bool, Value]:
    if not mapping:
        return False, None
    for candidate in _key_candidates(key):
        # Python finds `1` under `True`; keys of `dict` are exactly str, exactly int or `MapKey`.
        if candidate in mapping:
            return True, mapping[candidate]
    return False, None


def _key_candidates(key: Value) -> Iterator[Value]:
    kind = type(key)
    if kind is int:
        yield key
        if key >= 0:
            yield MapKey(Uint(key))
    elif kind is Uint:
        yield MapKey(key)
        if key <= INT_MAX:
            yield int(key)
    elif kind is float:
        yield MapKey(key)
        if math.isfinite(key) and key.is_integer():
            yield int(key)
            yield MapKey(Uint(int(key)))
    elif kind is bytes:
        raise PanicError("runtime error: hash of unhashable type types.Bytes")
    else:
        yield MapKey(key)


def contains(container: Value, element: Value, steps: Steps | None = None) -> Equality:
    """Return `element in container`. Raises `EvalError` if it is no container. `steps` is as in `equal`."""
    steps = steps or Steps()
    if isinstance(container, ConcatList):
        return any(contains(part, element, steps) is True for part in container.lists())
    if isinstance(container, TypedList):
        return any(value_equal(item, element, steps) is True for item in steps.each(container))
    if isinstance(container, list | tuple):
        return any(value_equal(element, item, steps) is True for item in steps.each(container))
    if is_map(container):
        is_element, value = find(container, element)
        if isinstance(container, dict):
            return is_element
        return value if isinstance(value, EvalError) else is_element
    raise EvalError(NO_SUCH_OVERLOAD)
