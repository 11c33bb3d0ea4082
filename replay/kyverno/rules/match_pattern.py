"""Comparison of an object with a pattern (`pkg/engine/validate/validate.go`, `pkg/engine/anchor/handlers.go`)."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct

from replay.go.format import parse_int
from replay.go.time import DurationError, parse_duration
from replay.json import JSON
from replay.kube.quantity import QuantityError, parse_quantity
from replay.kyverno.rules.go_value import (
    as_map,
    equal,
    exponential,
    known,
    parse_float,
    sprint,
    truncated,
    type_name,
)
from replay.kyverno.wildcard import has_wildcard, matches_wildcard

# Anchors: keys of a pattern with a special meaning, such as `(name)` and `=(image)` (`pkg/engine/anchor/anchor.go`).

CONDITION, GLOBAL, NEGATION, ADD, EQUALITY, EXISTENCE = "", "<", "X", "+", "=", "^"
_ANCHOR = re.compile(r"([+<=X^])?\((.+)\)")


class Anchor(NamedTuple):
    """Modifier with the key that it applies to."""

    modifier: str
    key: str

    def __str__(self) -> str:
        """Return the anchor as it is written in a pattern."""
        return f"{self.modifier}({self.key})"


@lru_cache(maxsize=16384)
def parse_anchor(text: str) -> Anchor | None:
    """Parse the anchor of a key. Return None for a plain key."""
    match = _ANCHOR.fullmatch(text.strip())
    return Anchor(match[1] or "", match[2]) if match is not None else None


def _is_anchor(text: str, *modifiers: str) -> bool:
    """Return whether a key is an anchor with one of the modifiers."""
    anchor = parse_anchor(text)
    return anchor is not None and anchor.modifier in modifiers


# Patterns of one value: operators, ranges, quantities, durations, wildcards (`pkg/engine/{pattern,operator}`).

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
    return isinstance(value, str) and parse_int(value) == pattern


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
        return f"{value:f}"
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
        text = exponential(value)
    elif isinstance(value, int):
        text = str(value)
    elif isinstance(value, str):
        text = value
    else:
        return False
    return matches_wildcard(pattern, text) is (operator == "")


_CONDITION_MISMATCH = "conditional anchor mismatch"
_GLOBAL_MISMATCH = "global anchor mismatch"
_NEGATION_MATCHED = "negation anchor matched in resource"
_FIRST = (CONDITION, EXISTENCE, EQUALITY, NEGATION)
"""Anchors that are evaluated before the other keys of their map."""


class PatternError(Exception):
    """Mismatch of an object and a pattern. `path` is empty if an anchored key is missing.

    `skip` says that a condition does not hold, so the rule does not apply.
    """

    def __init__(self, message: str, path: str, *, skip: bool) -> None:
        """`message` is Kyverno's text."""
        super().__init__(message)
        self.path = path
        self.skip = skip


class _Mismatch(Struct, frozen=True):
    """Mismatch with path and message.

    `kind` is the kind of its anchor. `combined` says that it joins several mismatches.
    """

    path: str
    message: str
    kind: str = ""
    combined: bool = False

    @property
    def is_skip(self) -> bool:
        return self._is(CONDITION_KIND, _CONDITION_MISMATCH) or self._is(GLOBAL_KIND, _GLOBAL_MISMATCH)

    @property
    def is_failure(self) -> bool:
        return self._is(NEGATION_KIND, _NEGATION_MATCHED)

    def _is(self, kind: str, text: str) -> bool:
        # Kyverno tells errors apart by their type where it has one, else by their text.
        return self.kind == kind if self.kind else text in self.message


CONDITION_KIND, GLOBAL_KIND, NEGATION_KIND = "condition", "global", "negation"


def match_pattern(resource: JSON, pattern: JSON) -> None:
    """Compare an object with a pattern (`MatchPattern`). Raises PatternError if it does not fit."""
    matcher = _Matcher()
    wrong = matcher.element(resource, pattern, "/")
    if wrong is None:
        return
    if wrong.is_skip:
        raise PatternError(wrong.message, "", skip=True)
    if not wrong.is_failure and matcher.keys_are_missing():
        raise PatternError(wrong.message, "", skip=False)
    raise PatternError(wrong.message, wrong.path, skip=False)


class _Matcher:
    """One comparison. It remembers which anchored keys were found."""

    def __init__(self) -> None:
        self._found: dict[str, bool] = {}

    def keys_are_missing(self) -> bool:
        return any(not found and not _is_anchor(key, NEGATION) for key, found in self._found.items())

    def element(self, resource: JSON, pattern: JSON, path: str) -> _Mismatch | None:
        known(resource)
        if isinstance(pattern, dict):
            if not isinstance(resource, dict):
                expected = f"Expected {type_name(pattern)}, found {type_name(resource)}"
                return _Mismatch(path, f"pattern and resource have different structures. Path: {path}. {expected}")
            self._note(pattern, resource)
            return self._map(resource, pattern, path)
        if isinstance(pattern, list):
            if not isinstance(resource, list):
                return _Mismatch(
                    path,
                    f"validation rule failed at path {path}, resource does not satisfy the expected overlay pattern",
                )
            return self._array(resource, pattern, path)
        items = resource if isinstance(resource, list) else [resource]
        if not all(matches_pattern(item, pattern) for item in items):
            return _Mismatch(
                path, f"resource value '{sprint(resource)}' does not match '{sprint(pattern)}' at path {path}"
            )
        return None

    def _note(self, pattern: dict[str, Any], resource: dict[str, Any]) -> None:
        for key in pattern:
            anchor = parse_anchor(key)
            if anchor is not None and anchor.modifier in (CONDITION, EXISTENCE, NEGATION):
                self._found[key] = self._found.get(key, False) or anchor.key in resource

    def _map(self, resource: dict[str, Any], pattern: dict[str, Any], path: str) -> _Mismatch | None:
        """Compare a map: first the anchors by name, then the other keys, of which those with inner anchors come first."""
        pattern = expanded_in_metadata(pattern, resource)
        anchors = sorted(key for key in pattern if _is_anchor(key, *_FIRST))
        skipped: list[_Mismatch] = []
        applied = 0
        for key in anchors:
            wrong = self._key(key, pattern[key], resource, path)
            if wrong is None:
                applied += 1
            elif wrong.is_skip:
                skipped.append(wrong)
            elif all(each.combined for each in skipped):
                return wrong
        if skipped and (applied == 0 or not all(each.combined for each in skipped)):
            return _combined(skipped, path)
        for key in pattern_order(pattern):
            wrong = self._key(key, pattern[key], resource, path)
            if wrong is not None:
                return wrong
        return None

    def _key(self, key: str, pattern: JSON, resource: dict[str, Any], path: str) -> _Mismatch | None:
        anchor = parse_anchor(key)
        if anchor is None or anchor.modifier not in (*_FIRST, GLOBAL):
            return self._plain(key, pattern, resource, path)
        inner_path = f"{path}{anchor.key}/"
        there = anchor.key in resource
        if anchor.modifier == NEGATION:
            if not there:
                return None
            return _Mismatch(inner_path, f"{_NEGATION_MATCHED}: {inner_path} is not allowed", NEGATION_KIND)
        if not there:
            if anchor.modifier != CONDITION:
                return None
            missing = "conditional anchor key doesn't exist in the resource"
            return _Mismatch(inner_path, f"{_CONDITION_MISMATCH}: {missing}", CONDITION_KIND)
        value = resource[anchor.key]
        if anchor.modifier == EXISTENCE:
            return self._existence(value, pattern, inner_path)
        wrong = self.element(value, pattern, inner_path)
        if wrong is None or anchor.modifier == EQUALITY:
            return wrong
        if anchor.modifier == CONDITION:
            return _Mismatch(wrong.path, f"{_CONDITION_MISMATCH}: {wrong.message}", CONDITION_KIND)
        return _Mismatch(wrong.path, f"{_GLOBAL_MISMATCH}: {wrong.message}", GLOBAL_KIND)

    def _plain(self, key: str, pattern: JSON, resource: dict[str, Any], path: str) -> _Mismatch | None:
        value = known(resource.get(key))
        if pattern == "*":
            return None if value is not None else _Mismatch(path, f"{path}/{key} not found")
        return self.element(value, pattern, f"{path}{key}/")

    def _existence(self, value: JSON, pattern: JSON, path: str) -> _Mismatch | None:
        """Compare an existence anchor: each item of the pattern must fit at least one item of the list."""
        if not isinstance(known(value), list):
            kind = type_name(value)
            return _Mismatch(
                path,
                f"invalid resource type {kind}: Existence ^ () anchor can be used only on list/array type resource",
            )
        if not isinstance(pattern, list):
            wrong = f"invalid pattern type {type_name(pattern)}: Pattern has to be of list to compare against resource"
            return _Mismatch(path, wrong)
        for item in pattern:
            if not isinstance(item, dict):
                wrong = f"invalid pattern type {type_name(pattern)}: "
                return _Mismatch(path, f"{wrong}Pattern has to be of type map to compare against items in resource")
            if not any(self.element(each, item, f"{path}{index}/") is None for index, each in enumerate(value)):
                return _Mismatch(path, f"existence anchor validation failed at path {path}")
        return None

    def _array(self, resource: list[Any], pattern: list[Any], path: str) -> _Mismatch | None:
        """Compare a list. A list of maps has one pattern for all items. Lists of lists are compared item by item."""
        if not pattern:
            return _Mismatch(path, "pattern Array empty")
        first = pattern[0]
        if not isinstance(first, dict | list):
            return self.element(resource, first, path)
        if isinstance(first, dict):
            pairs = [(item, first) for item in resource]
        elif len(resource) < len(pattern):
            lengths = f"resource Array len is {len(resource)} and pattern Array len is {len(pattern)}"
            return _Mismatch("", f"validate Array failed, array length mismatch, {lengths}")
        else:
            pairs = list(zip(resource, pattern, strict=False))
        applied, skipped = 0, []
        for index, (item, item_pattern) in enumerate(pairs):
            wrong = self.element(item, item_pattern, f"{path}{index}/")
            if wrong is None:
                applied += 1
            elif wrong.is_skip:
                skipped.append(wrong)
            else:
                return wrong
        return _combined(skipped, path) if skipped and not applied else None


def _combined(skipped: list[_Mismatch], path: str) -> _Mismatch:
    return _Mismatch(path, "; ".join(each.message for each in skipped), combined=True)


def pattern_order(pattern: dict[str, Any]) -> list[str]:
    """Return the keys after the anchors in the order of comparison.

    A key with inner anchors goes before all earlier keys.
    """
    keys = [key for key in pattern if not _is_anchor(key, *_FIRST)]
    if len(keys) <= 1:
        return keys
    front: list[str] = []
    back: list[str] = []
    for key in sorted(keys):
        (front if _is_anchor(key, GLOBAL) or _has_anchors(pattern[key]) else back).append(key)
    # Kyverno pushes each of these keys to the front of its list.
    return [*reversed(front), *back]


def _has_anchors(pattern: JSON) -> bool:
    if isinstance(pattern, dict):
        return any(_is_anchor(key, *_FIRST, GLOBAL) for key in pattern) or any(map(_has_anchors, pattern.values()))
    return isinstance(pattern, list) and any(map(_has_anchors, pattern))


def expanded_in_metadata(pattern: dict[str, Any], resource: dict[str, Any]) -> dict[str, Any]:
    """Return the pattern with wildcards in label and annotation keys replaced by keys that the object has.

    As in `pkg/engine/wildcards`, values that are not strings are dropped from labels and annotations.
    """
    metadata = _value_of("metadata", pattern)
    own = resource.get("metadata")
    if metadata is None or not isinstance(metadata[1], dict) or not isinstance(own, dict):
        return pattern
    changed = metadata[1]
    for tag in ("labels", "annotations"):
        entry, owned = _value_of(tag, metadata[1]), as_map(known(own.get(tag)))
        if entry is None or not isinstance(entry[1], dict) or not isinstance(known(own.get(tag)), dict):
            continue
        texts = {key: value for key, value in entry[1].items() if isinstance(value, str)}
        changed = {**changed, entry[0]: {_expanded_key(key, owned): value for key, value in texts.items()}}
    return pattern if changed is metadata[1] else {**pattern, metadata[0]: changed}


def _value_of(tag: str, pattern: dict[str, Any]) -> tuple[str, Any] | None:
    for key, value in pattern.items():
        anchor = parse_anchor(key)
        if value is not None and (key == tag or (anchor is not None and anchor.key == tag)):
            return key, value
    return None


def _expanded_key(key: str, owned: dict[str, Any]) -> str:
    if not has_wildcard(key):
        return key
    anchor = parse_anchor(key)
    wanted = anchor.key if anchor is not None else key
    fits = next(
        (name for name in sorted(owned) if isinstance(owned[name], str) and matches_wildcard(wanted, name)), wanted
    )
    return str(Anchor(anchor.modifier, fits)) if anchor is not None else fits
