"""Object patterns with anchors as CEL (see `replay.kyverno.rules.match_pattern`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from replay.go.time import DurationError, parse_duration
from replay.json import JSON
from replay.kube.quantity import is_quantity
from replay.kyverno.migrate.formula import (
    FALSE,
    TRUE,
    Formula,
    NoEquivalentError,
    Place,
    Type,
    all_of,
    any_of,
    certain,
    compared,
    fits_any_wildcard,
    fits_wildcard,
    literal,
    negated,
    singular,
)
from replay.kyverno.rules.match_pattern import (
    ADD,
    CONDITION,
    EQUALITY,
    EXISTENCE,
    GLOBAL,
    IN_RANGE,
    NEGATION,
    NOT_IN_RANGE,
    PatternError,
    match_pattern,
    matches_pattern,
    operator_of,
    parse_anchor,
    pattern_order,
)
from replay.kyverno.rules.substitution import has_variables
from replay.kyverno.wildcard import has_wildcard

# Value patterns as CEL (see `replay.kyverno.rules.match_pattern`).

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DEFAULTS: dict[Type, Any] = {Type.TEXT: "", Type.QUANTITY: "", Type.INTEGER: 0, Type.BOOLEAN: False}


def _fits_value(place: Place, pattern: JSON, *, may_be_absent: bool = False) -> Formula:
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
        raise NoEquivalentError(f"{path} is a text, and its pattern {pattern} a number")
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
    return not operator_of(atom) and not is_quantity(atom) and not _is_duration(atom)


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
    names_quantity = is_quantity(operand)
    if _is_duration(operand) and not (names_quantity and kind is Type.QUANTITY):
        raise NoEquivalentError(f"`{atom}` of {path} is compared as a duration")
    if names_quantity:
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
        raise NoEquivalentError(f"`{atom}` of {path} is compared as a duration")
    if _WHOLE.fullmatch(operand):
        return compared(value, _relation(operator), str(int(operand)))
    if is_quantity(operand):
        order = f"quantity(string({value})).compareTo(quantity({literal(operand)}))"
        return compared(order, _relation(operator), "0")
    if operator in ("", "!"):
        fits = certain(holds=True) if operand in ("?*", "*?") else fits_wildcard(operand, f"string({value})")
        return fits if not operator else negated(fits)
    return FALSE


class Fit(Struct, frozen=True):
    """Formulas for a pattern: when a value does not violate it, and when that is because a condition does not apply."""

    fits: Formula
    skips: Formula = FALSE

    @property
    def passes(self) -> Formula:
        """Condition that the whole pattern fits."""
        return self.fits if self.skips == FALSE else all_of(self.fits, negated(self.skips))


def fits_patterns(place: Place, patterns: Sequence[JSON]) -> Formula:
    """Return the condition that an object fits one of several patterns, or that none applies. Raises UnsaidError."""
    if has_variables(list(patterns)):
        raise NoEquivalentError("the pattern has variables")
    fits = [_Pattern().element(place, each) for each in patterns]
    if len(fits) == 1:
        return fits[0].fits
    return any_of(*(each.passes for each in fits), all_of(*(each.skips for each in fits)))


class _Pattern:
    """Translation of one pattern.

    `lists` counts the enclosing lists. `bars` says where conditional anchors cannot stand.
    """

    def __init__(self, lists: int = 0, bars: str = "") -> None:
        self._lists = lists
        self._bars = bars

    def element(self, place: Place, pattern: JSON, *, may_be_absent: bool = False) -> Fit:
        """Return how a value fits. With `may_be_absent`, an absent value fits."""
        if isinstance(pattern, dict):
            return self._object(place, pattern, may_be_absent=may_be_absent)
        if isinstance(pattern, list):
            return self._list(place, pattern, may_be_absent=may_be_absent)
        return Fit(_fits_value(place, pattern, may_be_absent=may_be_absent))

    def _object(self, place: Place, pattern: dict[str, Any], *, may_be_absent: bool) -> Fit:
        if place.type is not Type.OBJECT:
            return Fit(negated(place.exists) if may_be_absent else FALSE)
        fit = self._map(place, pattern)
        fits_empty = _fits_empty(pattern)
        if place.path == "" or place.is_there or fits_empty is may_be_absent:
            return fit
        if may_be_absent:
            return Fit(any_of(negated(place.exists), fit.fits), all_of(place.exists, fit.skips))
        return Fit(all_of(place.has_value, fit.fits), all_of(place.has_value, fit.skips))

    def _map(self, place: Place, pattern: dict[str, Any]) -> Fit:
        _check_keys(pattern)
        conditions: list[Formula] = []
        anchored: list[Formula] = []
        for key in sorted(pattern):
            anchor = parse_anchor(key)
            if anchor is None:
                continue
            own = place.field(anchor.key)
            if anchor.modifier == CONDITION:
                if self._bars or self._lists > 1:
                    raise NoEquivalentError(f"the condition `{key}` stands {self._bars or 'in a list of a list'}")
                inner = _Pattern(self._lists, "within a condition").element(own, pattern[key])
                has_key = TRUE if not _fits_absent(pattern[key]) else own.exists
                conditions.append(all_of(has_key, inner.fits))
            elif anchor.modifier == EQUALITY:
                inner = _Pattern(self._lists, "below `=( )`").element(own, pattern[key], may_be_absent=True)
                anchored.append(inner.fits)
            elif anchor.modifier == NEGATION:
                anchored.append(negated(own.exists))
            elif anchor.modifier == EXISTENCE:
                if not place.requires(anchor.key):
                    raise NoEquivalentError(f"Kyverno answers with an error, not a violation, where `{key}` is absent")
                anchored.append(self._existence(own, pattern[key]))
            elif anchor.modifier in (GLOBAL, ADD):
                raise NoEquivalentError(f"the anchor of `{key}` decides about the whole rule")
        plain = [key for key in pattern_order(pattern) if parse_anchor(key) is None]
        fit = _in_turn([self._plain(place.field(key), pattern[key]) for key in plain])
        met = all_of(*conditions)
        return Fit(
            any_of(negated(met), all_of(*anchored, fit.fits)), any_of(negated(met), all_of(*anchored, fit.skips))
        )

    def _plain(self, place: Place, pattern: JSON) -> Fit:
        return Fit(place.has_value) if pattern == "*" else self.element(place, pattern)

    def _existence(self, place: Place, pattern: JSON) -> Formula:
        """Return the condition that each item of the pattern fits at least one item of the list."""
        if not isinstance(pattern, list) or not all(isinstance(each, dict) for each in pattern):
            return negated(place.exists)
        if place.type is not Type.LIST:
            return negated(place.exists)
        name = singular(place.path.rpartition(".")[2], self._lists)
        item = place.item(name)
        inner = _Pattern(self._lists + 1, "below `^( )`")
        found = [
            Formula(f"{place.default('[]')}.exists({name}, {inner.element(item, each).fits.text})") for each in pattern
        ]
        return any_of(negated(place.exists), all_of(*found))

    def _list(self, place: Place, pattern: list[Any], *, may_be_absent: bool) -> Fit:
        absent = negated(place.exists) if may_be_absent else FALSE
        if not pattern or place.type is not Type.LIST:
            return Fit(absent)
        first = pattern[0]
        if isinstance(first, list):
            raise NoEquivalentError(f"{place.path} is compared with a list of lists")
        if not isinstance(first, dict):
            return Fit(_fits_value(place, first, may_be_absent=may_be_absent))
        name = singular(place.path.rpartition(".")[2], self._lists)
        inner = _Pattern(self._lists + 1, self._bars).element(place.item(name), first)
        items = place.default("[]")
        there, own = (TRUE, items) if may_be_absent else (place.has_value, place.plain)
        fits = TRUE if inner.fits == TRUE else Formula(f"{own}.all({name}, {inner.fits.text})")
        skips = FALSE
        if inner.skips != FALSE:
            skips = all_of(Formula(f"{items}.size() > 0"), Formula(f"{items}.all({name}, {inner.skips.text})"))
        return Fit(all_of(there, fits), skips)


def _in_turn(chain: list[Fit]) -> Fit:
    """Return how keys fit that Kyverno evaluates in turn: the first that violates or skips decides."""
    fits, skips = TRUE, FALSE
    for each in reversed(chain):
        skips = any_of(each.skips, all_of(each.passes, skips))
        fits = all_of(each.fits, any_of(each.skips, fits)) if each.skips != FALSE else all_of(each.fits, fits)
    return Fit(fits, skips)


def _fits_empty(pattern: dict[str, Any]) -> bool:
    """Return whether an object without fields does not violate a pattern."""
    try:
        match_pattern({}, pattern)
    except PatternError as error:
        return error.skip
    return True


def _fits_absent(pattern: JSON) -> bool:
    return not isinstance(pattern, dict | list) and matches_pattern(None, pattern)


def _check_keys(pattern: dict[str, Any]) -> None:
    """Raise UnsaidError for keys that Kyverno does not read as written."""
    for key, value in pattern.items():
        if key != key.strip():
            raise NoEquivalentError(f"the key `{key}` has blanks around it")
        anchor = parse_anchor(key)
        name = anchor.key if anchor is not None else key
        if name not in ("labels", "annotations") or not isinstance(value, dict):
            continue
        if any(map(has_wildcard, value)):
            raise NoEquivalentError(f"a key of `{name}` has wildcards")
        if not all(isinstance(each, str) for each in value.values()):
            raise NoEquivalentError(f"a value of `{name}` is not a string, and Kyverno leaves it out")
