"""Answers about constants, by the functions that decide."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.regexp import matches
from replay.cel.value.values import EvalError
from replay.kube.quantity import QuantityError, parse_quantity


@lru_cache(maxsize=65536)
def matches_exactly(text: str, pattern: str) -> bool | None:
    """Whether a pattern is found in a text; None where that is an error or not known."""
    try:
        return matches(text, pattern)
    except (EvalError, UndeterminedError):
        return None


@lru_cache(maxsize=65536)
def quantity_of(text: str) -> Fraction | None:
    """Return the amount of a quantity, None for other texts."""
    try:
        quantity = parse_quantity(text)
    except QuantityError:
        return None
    return Fraction(quantity.value) * Fraction(10) ** quantity.scale
