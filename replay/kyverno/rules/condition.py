"""Conditions of preconditions and of `deny` (`pkg/engine/variables/evaluate.go`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from replay.cel.value.values import EvalError
from replay.cellib.library.semver import SemanticVersion, parse_version
from replay.go.format import parse_int
from replay.go.time import SECOND, DurationError, parse_duration
from replay.json import JSON
from replay.kube.quantity import QuantityError, is_quantity, parse_quantity
from replay.kyverno.rules.context import Context
from replay.kyverno.rules.go_value import (
    as_map,
    equal,
    known,
    parse_float,
    sprint,
    truncated,
    type_name,
)
from replay.kyverno.rules.match_pattern import matches_pattern, operator_of
from replay.kyverno.rules.response import GoPanicError, RuleError
from replay.kyverno.rules.substitution import substitute
from replay.kyverno.wildcard import matches_wildcard

# Operators of conditions (`pkg/engine/variables/operator`).

Operator = Callable[[JSON, JSON], bool]
Order = Callable[[float], bool]

_ORDERS: dict[str, Order] = {
    "GreaterThanOrEquals": lambda order: order >= 0,
    "GreaterThan": lambda order: order > 0,
    "LessThanOrEquals": lambda order: order <= 0,
    "LessThan": lambda order: order < 0,
}


def operator_named(name: str) -> Operator | None:
    """Return the operator with a name, or None if there is none.

    Names ignore case. But a numeric operator is never true unless its name has the documented case.
    """
    found = _OPERATORS.get(name.lower())
    if found is not None:
        return found
    base = name.removeprefix("Duration")
    if base.lower() not in {each.lower() for each in _ORDERS} and name.lower() not in _DURATIONS:
        return None
    if name.lower() in _DURATIONS:
        order = _ORDERS.get(base) if name.startswith("Duration") else None
        return lambda key, value: _compares_durations(key, value, order)
    order = _ORDERS.get(name)
    return lambda key, value: _compares(key, value, order)


_DURATIONS = frozenset(f"duration{name.lower()}" for name in _ORDERS)


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _duration_of(value: JSON) -> int | None:
    """Return the duration of a text, or None. A bare `0` is not a duration."""
    if not isinstance(value, str) or value == "0":
        return None
    try:
        return parse_duration(value)
    except DurationError:
        return None


def _durations(key: JSON, value: JSON) -> tuple[int, int] | None:
    """Return both values as nanoseconds, or None.

    At least one must be a duration. The other can be a number of seconds.
    """
    one, other = _duration_of(key), _duration_of(value)
    if one is None and other is None:
        return None
    if one is None:
        one = _seconds(key)
    if other is None:
        other = _seconds(value)
    return None if one is None or other is None else (one, other)


def _seconds(value: JSON) -> int | None:
    if not _is_number(value):
        return None
    whole = truncated(value) if isinstance(value, float) else value
    # Go multiplies int64 durations without a check of overflow.
    return (whole * SECOND + 2**63) % 2**64 - 2**63


def _float_seconds(nanoseconds: int) -> float:
    whole, fraction = divmod(abs(nanoseconds), SECOND)
    seconds = float(whole) + float(fraction) / 1e9
    return -seconds if nanoseconds < 0 else seconds


def _is_equal(key: JSON, value: JSON) -> bool:
    if isinstance(key, bool):
        return isinstance(value, bool) and key is value
    if isinstance(key, int):
        return _integer_equals(key, value)
    if isinstance(key, float):
        return _float_equals(key, value)
    if isinstance(key, str):
        return _text_equals(key, value)
    if type(key) in (dict, list):
        return type(value) is type(key) and equal(key, value)
    known(key)
    return False


def _is_unequal(key: JSON, value: JSON) -> bool:
    """Return whether two values are unequal. Incomparable types are neither equal nor unequal."""
    if key is None or (isinstance(key, list) and type(key) is not list):
        return False
    if isinstance(key, str) and value == "" and _duration_of(key) is None and is_quantity(key):
        return not matches_wildcard("", key)
    return not _is_equal(key, value)


def _integer_equals(key: int, value: JSON) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return key == value
    if isinstance(value, float):
        return math.isfinite(value) and value == math.trunc(value) and truncated(value) == key
    return isinstance(value, str) and parse_int(value) == key


def _float_equals(key: float, value: JSON) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return math.isfinite(key) and key == math.trunc(key) and truncated(key) == value
    if isinstance(value, float):
        return key == value
    return isinstance(value, str) and parse_float(value) == key


def _text_equals(key: str, value: JSON) -> bool:
    durations = _durations(key, value)
    if durations is not None:
        return _float_seconds(durations[0]) == _float_seconds(durations[1])
    if not isinstance(value, str):
        return False
    try:
        quantity = parse_quantity(key)
    except QuantityError:
        return matches_wildcard(value, key)
    try:
        return quantity.compare(parse_quantity(value)) == 0
    except QuantityError:
        return False


def _compares(key: JSON, value: JSON, order: Order | None) -> bool:
    """Compare numbers, durations, quantities or versions. `order` is None for a name with undocumented case."""
    if isinstance(key, bool) or not isinstance(key, int | float | str):
        known(key)
        return False
    result = _order_of_text(key, value) if isinstance(key, str) else _order_of_number(float(key), key, value)
    return result is not None and order is not None and order(result)


def _difference(one: float, other: float) -> float:
    return math.nan if math.isnan(one) or math.isnan(other) else (one > other) - (one < other)


def _order_of_number(key: float, original: JSON, value: JSON) -> float | None:
    if _is_number(value):
        return _difference(key, float(value))
    if not isinstance(value, str):
        return None
    durations = _durations(original, value)
    if durations is not None:
        return _difference(_float_seconds(durations[0]), _float_seconds(durations[1]))
    number = parse_float(value)
    return None if number is None else _difference(key, number)


def _order_of_text(key: str, value: JSON) -> float | None:
    durations = _durations(key, value)
    if durations is not None:
        return _difference(_float_seconds(durations[0]), _float_seconds(durations[1]))
    if isinstance(value, str):
        try:
            return parse_quantity(key).compare(parse_quantity(value))
        except QuantityError:
            pass
    number = parse_float(key)
    if number is not None:
        return _order_of_number(number, number, value)
    version = _version(key)
    if version is None or not isinstance(value, str):
        return None
    other = _version(value)
    return None if other is None else version.compare(other)


def _version(text: str) -> SemanticVersion | None:
    try:
        return parse_version(text)
    except EvalError:
        return None


def _compares_durations(key: JSON, value: JSON, order: Order | None) -> bool:
    one, other = _as_duration(key), _as_duration(value)
    return one is not None and other is not None and order is not None and order(_difference(one, other))


def _as_duration(value: JSON) -> int | None:
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except DurationError:
            return None
    return _seconds(known(value))


def _scalar_text(key: JSON) -> str | None:
    """Return a key as text, or None if it is neither text, number nor boolean."""
    return sprint(key) if isinstance(known(key), str | int | float) else None


def _listed(text: str) -> list[str] | None:
    """Return the texts of a JSON list, the text itself if it is not JSON, or None for other JSON."""
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError:
        return [text]
    if decoded is None:
        return []
    if not isinstance(decoded, list) or not all(item is None or isinstance(item, str) for item in decoded):
        return None
    return [item or "" for item in decoded]


def _fits(one: str, other: str) -> bool:
    return matches_wildcard(one, other) or matches_wildcard(other, one)


def _contains(key: str, value: JSON) -> bool | None:
    """Return whether a list or text holds a key, or None if the value is neither."""
    if type(value) is list:
        return any(_fits(sprint(item), key) for item in value)
    if not isinstance(known(value), str):
        return None
    if matches_wildcard(value, key):
        return True
    if operator_of(value) == "-":
        return matches_pattern(key, value)
    items = _listed(value)
    return None if items is None else key in items


def _any_in(keys: list[str], values: list[str]) -> bool:
    return any(_fits(key, value) for key in keys for value in values)


def _all_in(keys: list[str], values: list[str]) -> bool:
    return all(any(_fits(key, value) for value in values) for key in keys)


def _any_not_in(keys: list[str], values: list[str]) -> bool:
    return not _all_in(keys, values)


def _all_not_in(keys: list[str], values: list[str]) -> bool:
    return not _any_in(keys, values)


def _any_in_range(keys: list[str], value: str) -> bool:
    return any(matches_pattern(key, value) for key in keys)


def _all_in_range(keys: list[str], value: str) -> bool:
    return all(matches_pattern(key, value) for key in keys)


def _any_not_in_range(keys: list[str], value: str) -> bool:
    # `1!-5` is the pattern of numbers outside of a range.
    outside = value.replace("-", "!-", 1)
    return any(matches_pattern(key, outside) for key in keys)


def _all_not_in_range(keys: list[str], value: str) -> bool:
    return not _any_in_range(keys, value)


class _Membership:
    """Operator `AnyIn`, `AllIn`, `AnyNotIn` or `AllNotIn`."""

    def __init__(
        self,
        lists: Callable[[list[str], list[str]], bool],
        ranges: Callable[[list[str], str], bool],
        *,
        negated: bool,
        takes_scalars: bool,
    ) -> None:
        self._lists = lists
        self._ranges = ranges
        self._negated = negated
        self._takes_scalars = takes_scalars

    def __call__(self, key: JSON, value: JSON) -> bool:
        text = _scalar_text(key)
        if text is not None:
            held = _contains(text, value)
            return held is not None and held is not self._negated
        if type(key) is not list:
            return False
        keys = [sprint(item) for item in key]
        if type(value) is list:
            return self._lists(keys, [sprint(item) for item in value])
        if isinstance(value, str):
            return self._in_text(keys, value)
        if self._takes_scalars and isinstance(value, int | float):
            return self._lists(keys, [sprint(value)])
        known(value)
        return False

    def _in_text(self, keys: list[str], value: str) -> bool:
        if keys == [value]:
            return not self._negated
        if operator_of(value) == "-":
            return self._ranges(keys, value)
        items = _listed(value)
        return items is not None and self._lists(keys, items)


def _old_in(*, negated: bool) -> Operator:
    """Return the deprecated operator `In` or `NotIn`.

    It compares sets without wildcards, and a text must be a JSON list.
    """

    def evaluate(key: JSON, value: JSON) -> bool:
        text = _scalar_text(key)
        if text is not None:
            held = _old_contains(text, value)
            return held is not None and held is not negated
        if type(key) is not list:
            return False
        for item in key:
            if not isinstance(item, str):
                raise GoPanicError(f"interface conversion: interface {{}} is {type_name(item)}, not string")
        items: list[str] | None
        if isinstance(value, str):
            # For `NotIn` too: Kyverno returns true for both.
            if key == [value]:
                return True
            items = _json_texts(value)
        else:
            is_texts = type(known(value)) is list and all(isinstance(item, str) for item in value)
            items = value if is_texts else None
        if items is None:
            return False
        is_subset = all(item in items for item in key)
        return not is_subset if negated else is_subset

    return evaluate


def _json_texts(text: str) -> list[str] | None:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return _listed(text)


def _old_contains(key: str, value: JSON) -> bool | None:
    if type(value) is list:
        return any(_fits(sprint(item), key) for item in value)
    if not isinstance(known(value), str):
        return None
    if matches_wildcard(value, key):
        return True
    items = _json_texts(value)
    return None if items is None else key in items


_OPERATORS: dict[str, Operator] = {
    "equal": _is_equal,
    "equals": _is_equal,
    "notequal": _is_unequal,
    "notequals": _is_unequal,
    "in": _old_in(negated=False),
    "notin": _old_in(negated=True),
    "anyin": _Membership(_any_in, _any_in_range, negated=False, takes_scalars=True),
    "allin": _Membership(_all_in, _all_in_range, negated=False, takes_scalars=False),
    "anynotin": _Membership(_any_not_in, _any_not_in_range, negated=True, takes_scalars=True),
    "allnotin": _Membership(_all_not_in, _all_not_in_range, negated=True, takes_scalars=False),
}


class Outcome(NamedTuple):
    """Result of conditions: whether they hold, and the messages of the conditions that decided."""

    holds: bool
    message: str


def evaluate_conditions(context: Context, conditions: JSON) -> Outcome:
    """Return whether conditions hold: a map with `any` and `all`, or a list as in old policies.

    Raises RuleError if a variable cannot be resolved.
    """
    if conditions is None:
        return Outcome(True, "")
    if isinstance(conditions, Mapping):
        return _any_and_all(context, conditions)
    messages: list[str] = []
    for condition in conditions:
        holds, message = _evaluate(context, condition)
        if not holds:
            return Outcome(False, message)
        messages.append(message)
    return Outcome(True, ";".join(filter(None, messages)))


def shown_conditions(context: Context, conditions: JSON, *, holding: bool) -> tuple[str, ...]:
    """Return the conditions that hold, or those that do not, with their values."""
    listed = [each for group in ("any", "all") for each in as_map(conditions).get(group) or ()]
    listed = listed if isinstance(conditions, Mapping) else list(conditions or ())
    told = []
    for each in listed:
        key, value = (substitute(context, each.get(part)) for part in ("key", "value"))
        if _evaluate(context, each).holds is holding:
            says = "holds" if holding else "does not hold"
            told.append(f"{each.get('key')} {each.get('operator')} {sprint(value)} {says}: the key is {sprint(key)}")
    return tuple(told)


def _any_and_all(context: Context, conditions: Mapping[str, Any]) -> Outcome:
    """Return whether one condition of `any` holds, unless there is no `any`, and each condition of `all`."""
    any_holds = all_holds = True
    met: list[str] = []
    unmet: list[str] = []
    if conditions.get("any") is not None:
        any_holds = False
        for condition in conditions["any"]:
            any_holds, message = _evaluate(context, condition)
            (met if any_holds else unmet).append(message)
            if any_holds:
                break
    for condition in conditions.get("all") or ():
        all_holds, message = _evaluate(context, condition)
        (met if all_holds else unmet).append(message)
        if not all_holds:
            break
    holds = any_holds and all_holds
    return Outcome(holds, "; ".join(filter(None, met if holds else unmet)))


def _evaluate(context: Context, condition: Mapping[str, Any]) -> Outcome:
    try:
        key = substitute(context, condition.get("key"))
    except RuleError as error:
        raise RuleError(f"failed to substitute variables in condition key: {error}") from None
    try:
        value = substitute(context, condition.get("value"))
    except RuleError as error:
        raise RuleError(f"failed to substitute variables in condition value: {error}") from None
    operator = operator_named(str(condition.get("operator") or ""))
    if operator is None:
        # Go prints so the missing error that Kyverno wraps here.
        raise RuleError("failed to create handler for condition operator: %!w(<nil>)")
    return Outcome(operator(key, value), str(condition.get("message") or ""))
