"""Patterns of one value: operators, ranges, quantities, durations, wildcards (`pkg/engine/{pattern,operator}`)."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from replay.go.time import DurationError, parse_duration
from replay.json import JSON
from replay.kube.quantity import QuantityError, parse_quantity
from replay.kyverno.rules.go_value import equal, fixed, known, parse_float, parse_integer, scientific, truncated
from replay.kyverno.wildcard import matches_wildcard

# The `|` in the class is Kyverno's.
_NUMBER = r"([-|+]?\d+(?:\.\d+)?[A-Za-z]*)"
IN_RANGE = re.compile(rf"{_NUMBER}-{_NUMBER}", re.ASCII)
NOT_IN_RANGE = re.compile(rf"{_NUMBER}!-{_NUMBER}", re.ASCII)
_OPERATORS = (">=", "<=", ">", "<", "!")
_ORDERS = {
    "": lambda order: order == 0,
    "!": lambda order: order != 0,
    ">": lambda order: order > 0,
    "<": lambda order: order < 0,
    ">=": lambda order: order >= 0,
    "<=": lambda order: order <= 0,
}


def operator_of(pattern: str) -> str:
    """Return the operator of a pattern: `-` or `!-` for a range, empty for equality."""
    if len(pattern.encode("utf-8", "surrogateescape")) < 2:
        return ""
    for operator in _OPERATORS:
        if pattern.startswith(operator):
            return operator
    if NOT_IN_RANGE.fullmatch(pattern):
        return "!-"
    return "-" if IN_RANGE.fullmatch(pattern) else ""


def matches_pattern(value: JSON, pattern: JSON) -> bool:
    """Return whether a value fits a pattern (`pattern.Validate`). A list is never a pattern."""
    known(value)
    if isinstance(pattern, bool):
        return isinstance(value, bool) and value is pattern
    if isinstance(pattern, float):
        return _fits_float(value, pattern)
    if isinstance(pattern, int):
        return _fits_integer(value, pattern)
    if pattern is None:
        return not isinstance(value, dict | list) and not value
    if isinstance(pattern, dict):
        return isinstance(value, dict)
    return isinstance(pattern, str) and _fits_text(value, pattern)


def _fits_integer(value: JSON, pattern: int) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, float):
        return value == math.trunc(value) and truncated(value) == pattern if math.isfinite(value) else False
    if isinstance(value, int):
        return value == pattern
    return isinstance(value, str) and parse_integer(value) == pattern


def _fits_float(value: JSON, pattern: float) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, float):
        return value == pattern
    if isinstance(value, int):
        return math.isfinite(pattern) and pattern == math.trunc(pattern) and truncated(pattern) == value
    return isinstance(value, str) and parse_float(value) == pattern


def _fits_text(value: JSON, pattern: str) -> bool:
    """Return whether a value fits a pattern with `|` between alternatives and `&` between conditions."""
    if isinstance(value, str):
        return _text_fits(value, pattern)
    return equal(value, pattern) or _fits_alternative(value, pattern)


@lru_cache(maxsize=16384)
def _text_fits(text: str, pattern: str) -> bool:
    return text == pattern or _fits_alternative(text, pattern)


def _fits_alternative(value: JSON, pattern: str) -> bool:
    return any(
        all(_fits_one(value, each.strip(" ")) for each in alternative.strip(" ").split("&"))
        for alternative in pattern.split("|")
    )


def _fits_one(value: JSON, pattern: str) -> bool:
    operator = operator_of(pattern)
    if operator == "-":
        bounds = IN_RANGE.fullmatch(pattern)
        return bounds is not None and _fits_one(value, f">= {bounds[1]}") and _fits_one(value, f"<= {bounds[2]}")
    if operator == "!-":
        bounds = NOT_IN_RANGE.fullmatch(pattern)
        return bounds is not None and (_fits_one(value, f"< {bounds[1]}") or _fits_one(value, f"> {bounds[2]}"))
    operand = pattern[len(operator) :].strip()
    order = _duration_order(value, operand)
    if order is None:
        order = _quantity_order(value, operand)
    if order is not None:
        return bool(_ORDERS[operator](order))
    return _fits_string(value, operand, operator)


def _number_text(value: JSON) -> str | None:
    """Return a value as text for parsing as duration or quantity, or None if it is neither number nor text."""
    if value is None:
        return "0"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return fixed(value)
    return str(value) if isinstance(value, int) else None


def _duration_order(value: JSON, pattern: str) -> int | None:
    try:
        wanted = parse_duration(pattern)
        text = _number_text(value)
        if text is None:
            return None
        given = parse_duration(text)
    except DurationError:
        return None
    return (given > wanted) - (given < wanted)


def _quantity_order(value: JSON, pattern: str) -> int | None:
    try:
        wanted = parse_quantity(pattern)
        text = _number_text(value)
        return None if text is None else parse_quantity(text).compare(wanted)
    except QuantityError:
        return None


def _fits_string(value: JSON, pattern: str, operator: str) -> bool:
    if operator not in ("", "!"):
        return False
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = scientific(value)
    elif isinstance(value, int):
        text = str(value)
    elif isinstance(value, str):
        text = value
    else:
        return False
    return matches_wildcard(pattern, text) is (operator == "")
