"""Object patterns with anchors as CEL (see `replay.kyverno.rules.match_pattern`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kyverno.migrate.formula import FALSE, TRUE, Formula, UnsaidError, all_of, any_of, negated
from replay.kyverno.migrate.place import Place, Type, singular
from replay.kyverno.migrate.value_pattern import fits_value
from replay.kyverno.rules.anchor import ADD, CONDITION, EQUALITY, EXISTENCE, GLOBAL, NEGATION, parse_anchor
from replay.kyverno.rules.match_pattern import PatternError, match_pattern, pattern_order
from replay.kyverno.rules.pattern import matches_pattern
from replay.kyverno.rules.substitution import has_variables
from replay.kyverno.wildcard import has_wildcard


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
        raise UnsaidError("the pattern has variables")
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
        return Fit(fits_value(place, pattern, may_be_absent=may_be_absent))

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
                    raise UnsaidError(f"the condition `{key}` stands {self._bars or 'in a list of a list'}")
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
                    raise UnsaidError(f"Kyverno answers with an error, not a violation, where `{key}` is absent")
                anchored.append(self._existence(own, pattern[key]))
            elif anchor.modifier in (GLOBAL, ADD):
                raise UnsaidError(f"the anchor of `{key}` decides about the whole rule")
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
            raise UnsaidError(f"{place.path} is compared with a list of lists")
        if not isinstance(first, dict):
            return Fit(fits_value(place, first, may_be_absent=may_be_absent))
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
            raise UnsaidError(f"the key `{key}` has blanks around it")
        anchor = parse_anchor(key)
        name = anchor.key if anchor is not None else key
        if name not in ("labels", "annotations") or not isinstance(value, dict):
            continue
        if any(map(has_wildcard, value)):
            raise UnsaidError(f"a key of `{name}` has wildcards")
        if not all(isinstance(each, str) for each in value.values()):
            raise UnsaidError(f"a value of `{name}` is no text, and Kyverno leaves it out")
