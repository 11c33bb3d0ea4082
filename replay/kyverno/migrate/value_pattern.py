"""Value patterns as CEL (see `replay.kyverno.rules.pattern`)."""

from __future__ import annotations

import re
from typing import Any

from replay.go.time import DurationError, parse_duration
from replay.json import JSON
from replay.kube.quantity import QuantityError, parse_quantity
from replay.kyverno.migrate.formula import (
    FALSE,
    Formula,
    UnsaidError,
    all_of,
    any_of,
    certain,
    compared,
    fits_any_wildcard,
    fits_wildcard,
    literal,
    negated,
)
from replay.kyverno.migrate.place import Place, Type
from replay.kyverno.rules.pattern import IN_RANGE, NOT_IN_RANGE, matches_pattern, operator_of

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DEFAULTS: dict[Type, Any] = {Type.TEXT: "", Type.QUANTITY: "", Type.INTEGER: 0, Type.BOOLEAN: False}


def fits_value(place: Place, pattern: JSON, *, may_be_absent: bool = False) -> Formula:
    """Return the condition that the value at a place fits a scalar pattern. Raises UnsaidError.

    With `may_be_absent`, an absent value fits.
    """
    kind = place.type
    fits_null = may_be_absent or matches_pattern(None, pattern)
    if kind is Type.OBJECT:
        return negated(place.has_value) if fits_null else FALSE
    if kind is Type.LIST:
        item = place.item("item")
        fits = _fits(item.type, "item", pattern, item.path)
        inner = Formula(f"{place.plain}.all(item, {fits.text})")
        return any_of(negated(place.has_value), inner) if fits_null else all_of(place.has_value, inner)
    default = _DEFAULTS.get(kind)
    if default is not None and matches_pattern(default, pattern) is fits_null:
        return _fits(kind, place.default(literal(default)), pattern, place.path)
    fits = _fits(kind, place.plain, pattern, place.path)
    return any_of(negated(place.has_value), fits) if fits_null else all_of(place.has_value, fits)


def _fits(kind: Type, value: str, pattern: JSON, path: str) -> Formula:
    """Return the condition that a present value fits."""
    if kind is Type.INTEGER_OR_TEXT:
        return any_of(
            all_of(compared(f"type({value})", "==", "int"), _fits(Type.INTEGER, value, pattern, path)),
            all_of(compared(f"type({value})", "==", "string"), _fits(Type.TEXT, value, pattern, path)),
        )
    if kind is Type.BOOLEAN:
        return boolean(value, when_true=matches_pattern(True, pattern), when_false=matches_pattern(False, pattern))
    if pattern is None or isinstance(pattern, bool):
        default = literal(_DEFAULTS[kind])
        return compared(value, "==", default) if pattern is None else FALSE
    if kind is Type.INTEGER:
        return _fits_integer(value, pattern, path)
    if isinstance(pattern, int) and kind is Type.TEXT:
        return Formula(f"{value}.matches({literal(_integer_text(pattern))})")
    if not isinstance(pattern, str):
        raise UnsaidError(f"{path} is a text, and its pattern {pattern} a number")
    return _alternatives(pattern, lambda atom: _text_atom(value, atom, path, kind), value)


def boolean(value: str, *, when_true: bool, when_false: bool) -> Formula:
    """Return a condition on a boolean value, given its result for true and for false."""
    if when_true is when_false:
        return certain(holds=when_true)
    return Formula(value) if when_true else negated(Formula(value))


def _integer_text(number: int) -> str:
    """Return a regular expression for the texts that Go parses as a number."""
    sign = "[+-]?" if number == 0 else "-" if number < 0 else "[+]?"
    return f"^{sign}0*{abs(number)}$"


def _alternatives(pattern: str, atom: Any, text: str) -> Formula:
    """Return the condition of a pattern: `|` separates alternatives, `&` joins conditions."""
    plain: list[str] = []
    others: list[Formula] = []
    for alternative in pattern.split("|"):
        parts = [part.strip(" ") for part in alternative.strip(" ").split("&")]
        if len(parts) == 1 and text and _is_plain(parts[0]):
            plain.append(parts[0])
        else:
            others.append(all_of(*map(atom, parts)))
    return any_of(fits_any_wildcard(plain, text), *others) if plain else any_of(*others)


def _is_plain(atom: str) -> bool:
    """Return whether a pattern is only a text or wildcard: no operator, number or duration."""
    return not operator_of(atom) and not _is_quantity(atom) and not _is_duration(atom)


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _is_duration(text: str) -> bool:
    """Return whether Kyverno reads a text as a duration. Zero does not count, because it compares as a quantity."""
    try:
        parse_duration(text)
    except DurationError:
        return False
    return text != "0"


def _text_atom(value: str, atom: str, path: str, kind: Type) -> Formula:
    operator = operator_of(atom)
    if operator in ("-", "!-"):
        return _range(atom, operator, lambda part: _text_atom(value, part, path, kind))
    operand = atom[len(operator) :].strip()
    is_quantity = _is_quantity(operand)
    if _is_duration(operand) and not (is_quantity and kind is Type.QUANTITY):
        raise UnsaidError(f"`{atom}` of {path} is compared as a duration")
    if is_quantity:
        reads = Formula(f"isQuantity({value})")
        order = compared(f"quantity({value}).compareTo(quantity({literal(operand)}))", _relation(operator), "0")
        return any_of(negated(reads), order) if operator == "!" else all_of(reads, order)
    if operator in ("", "!"):
        fits = fits_wildcard(operand, value)
        return fits if not operator else negated(fits)
    return FALSE


def _relation(operator: str) -> str:
    return {"": "==", "!": "!="}.get(operator, operator)


def _range(atom: str, operator: str, part: Any) -> Formula:
    """Return the condition of a range, which is two comparisons."""
    bounds = (IN_RANGE if operator == "-" else NOT_IN_RANGE).fullmatch(atom)
    if bounds is None:
        return FALSE
    if operator == "-":
        return all_of(part(f">= {bounds[1]}"), part(f"<= {bounds[2]}"))
    return any_of(part(f"< {bounds[1]}"), part(f"> {bounds[2]}"))


def _fits_integer(value: str, pattern: JSON, path: str) -> Formula:
    if isinstance(pattern, float):
        return compared(value, "==", str(int(pattern))) if pattern.is_integer() else FALSE
    if isinstance(pattern, int):
        return compared(value, "==", str(pattern))
    return _alternatives(str(pattern), lambda atom: _integer_atom(value, atom, path), "")


def _integer_atom(value: str, atom: str, path: str) -> Formula:
    operator = operator_of(atom)
    if operator in ("-", "!-"):
        return _range(atom, operator, lambda part: _integer_atom(value, part, path))
    operand = atom[len(operator) :].strip()
    if _is_duration(operand):
        raise UnsaidError(f"`{atom}` of {path} is compared as a duration")
    if _WHOLE.fullmatch(operand):
        return compared(value, _relation(operator), str(int(operand)))
    if _is_quantity(operand):
        order = f"quantity(string({value})).compareTo(quantity({literal(operand)}))"
        return compared(order, _relation(operator), "0")
    if operator in ("", "!"):
        fits = certain(holds=True) if operand in ("?*", "*?") else fits_wildcard(operand, f"string({value})")
        return fits if not operator else negated(fits)
    return FALSE
