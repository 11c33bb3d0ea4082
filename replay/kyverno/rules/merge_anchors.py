"""Anchors in a strategic merge patch, resolved for an object (`pkg/engine/mutate/patch/strategicPreprocessing.go`)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from replay.go.format import float_text
from replay.json import JSON
from replay.kyverno.rules.anchor import ADD, CONDITION, GLOBAL, Anchor, parse_anchor
from replay.kyverno.rules.errors import GoPanicError, RuleError
from replay.kyverno.rules.go_value import with_floats
from replay.kyverno.rules.match_pattern import PatternError, match_pattern
from replay.kyverno.rules.strategic_merge import strategic_merge, wrong_kind

IsAnchor = Callable[[Anchor], bool]


class _ConditionError(Exception):
    """Condition that does not hold. `is_global` says that the whole rule depends on it."""

    def __init__(self, *, is_global: bool) -> None:
        super().__init__()
        self.is_global = is_global


def merge_with_anchors(base: JSON, patch: JSON) -> JSON:
    """Merge a patch into an object if the patch's conditions hold. Raises RuleError and GoPanicError."""
    pattern = _sorted(patch)
    try:
        _process(pattern, base)
        if not isinstance(pattern, dict):
            raise wrong_kind(dict, pattern)
        _delete_condition_elements(pattern)
    except _ConditionError:
        pattern = {}
    except RuleError as error:
        raise RuleError(f"failed to preProcess rule: {error}") from None
    return strategic_merge(base, pattern)


def _sorted(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _is_condition(anchor: Anchor) -> bool:
    return anchor.modifier in (CONDITION, GLOBAL)


def _has_effect(anchor: Anchor) -> bool:
    return anchor.modifier in (CONDITION, GLOBAL, ADD)


def _keys(pattern: JSON, is_anchor: IsAnchor) -> list[tuple[str, Anchor]]:
    """Return the keys of a map that are anchors of some kind."""
    if not isinstance(pattern, dict):
        return []
    found = ((key, parse_anchor(key)) for key in pattern)
    return [(key, anchor) for key, anchor in found if anchor is not None and is_anchor(anchor)]


def _renamed(pattern: dict[str, Any], old: str, new: str) -> None:
    """Rename a key and keep its position."""
    items = [(new if key == old else key, value) for key, value in pattern.items()]
    pattern.clear()
    for key, value in items:
        pattern.setdefault(key, value)


def _field(resource: JSON, key: str) -> tuple[bool, JSON]:
    """Return whether an object has a field, and its value."""
    return (True, resource[key]) if isinstance(resource, dict) and key in resource else (False, None)


def _process(pattern: JSON, resource: JSON) -> None:
    """Resolve a pattern's anchors in place, for an object or for None if the object is absent."""
    if isinstance(pattern, dict):
        _process_map(pattern, resource)
    elif isinstance(pattern, list) and pattern and isinstance(pattern[0], dict):
        _process_list(pattern, resource)


def _process_map(pattern: dict[str, Any], resource: JSON) -> None:
    _add_if_not_present(pattern, resource)
    _check(pattern, resource, GLOBAL)
    _check(pattern, resource, CONDITION)
    for key in list(pattern):
        anchor = parse_anchor(key)
        if anchor is None or not _has_effect(anchor):
            _process(pattern[key], _field(resource, key)[1])


def _add_if_not_present(pattern: JSON, resource: JSON) -> int:
    """Remove `+( )` fields that the object has, and remove the anchor from the others. Return how many there were."""
    anchors = _keys(pattern, lambda anchor: anchor.modifier == ADD)
    for key, anchor in anchors:
        if _field(resource, anchor.key)[0]:
            del pattern[key]
        else:
            _renamed(pattern, key, anchor.key)
    return len(anchors)


def _check(pattern: dict[str, Any], resource: JSON, modifier: str) -> None:
    """Raise _ConditionError if a condition of a map does not hold."""
    for key, anchor in _keys(pattern, lambda each: each.modifier == modifier):
        there, value = _field(resource, anchor.key)
        if not there:
            raise _ConditionError(is_global=modifier == GLOBAL)
        if _add_if_not_present(pattern[key], value):
            continue
        try:
            match_pattern(_comparable(value), _comparable(pattern[key]))
        except PatternError:
            raise _ConditionError(is_global=modifier == GLOBAL) from None


def _comparable(value: JSON) -> JSON:
    """Return a node for comparison: a scalar as its text, anything else as decoded JSON."""
    if isinstance(value, dict | list):
        return with_floats(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return float_text(value) if isinstance(value, float) else str(value)


def _process_list(pattern: list[Any], resource: JSON) -> None:
    """Append a patch by name for each object item that fits an anchored item of the pattern."""
    if resource is not None and not isinstance(resource, list):
        raise wrong_kind(list, resource)
    for element in list(pattern):
        if not _contains_anchor(element, _has_effect):
            continue
        has_global = _contains_anchor(element, lambda anchor: anchor.modifier == GLOBAL)
        global_passed, global_error = False, None
        # One copy serves all items: what a first one drops of it is dropped for the others too.
        candidate = copy.deepcopy(element)
        for item in resource or ():
            try:
                _process(candidate, item)
            except _ConditionError as error:
                global_error = error if error.is_global else global_error
                continue
            if has_global:
                global_passed = True
            else:
                _add_by_name(pattern, candidate, item)
        if resource is None:
            try:
                _process(candidate, None)
            except _ConditionError as error:
                if error.is_global:
                    raise
                continue
            global_passed = global_passed or has_global
        if not global_passed and global_error is not None:
            raise global_error


def _add_by_name(pattern: list[Any], candidate: JSON, item: JSON) -> None:
    """Append the rest of an item without anchors, with the name of the object's item."""
    there, name = _field(item, "name")
    if not there or name in (None, "", [], {}):
        return
    made = copy.deepcopy(candidate)
    if _delete_anchors(made, delete_scalar=True):
        return
    made["name"] = name
    pattern.append(made)


def _contains_anchor(pattern: JSON, is_anchor: IsAnchor) -> bool:
    if isinstance(pattern, dict):
        return any(
            ((anchor := parse_anchor(key)) is not None and is_anchor(anchor))
            or (value not in (None, "", [], {}) and _contains_anchor(value, is_anchor))
            for key, value in pattern.items()
        )
    if isinstance(pattern, list):
        return any(_contains_anchor(item, is_anchor) for item in pattern)
    anchor = parse_anchor(pattern) if isinstance(pattern, str) else None
    return anchor is not None and _is_condition(anchor)


def _delete_condition_elements(pattern: dict[str, Any]) -> None:
    for key in list(pattern):
        anchor = parse_anchor(key)
        if _delete_anchors(pattern[key], delete_scalar=anchor is not None and _is_condition(anchor)):
            del pattern[key]


def _delete_anchors(node: JSON, *, delete_scalar: bool) -> bool:
    """Remove the conditions from a node. Return whether the node is then empty."""
    if isinstance(node, dict):
        return _delete_in_map(node)
    return _delete_in_list(node) if isinstance(node, list) else delete_scalar


def _delete_in_map(node: dict[str, Any]) -> bool:
    kept_anchor = False
    for key, _ in _keys(node, _is_condition):
        if _delete_anchors(node[key], delete_scalar=True):
            del node[key]
        else:
            kept_anchor = True
    if kept_anchor:
        for key, anchor in _keys(node, _is_condition):
            _renamed(node, key, anchor.key)
    is_empty = True
    for key in list(node):
        if _delete_anchors(node[key], delete_scalar=False):
            del node[key]
        else:
            is_empty = False
    return is_empty


def _delete_in_list(node: list[Any]) -> bool:
    """Remove the conditions from a list. Kyverno deletes by the index that an item had before earlier deletions."""
    elements = list(node)
    for index, element in enumerate(elements):
        if _contains_anchor(element, _has_effect) or _delete_anchors(element, delete_scalar=False):
            # Go slices `node[:index]` out of range here, and Kyverno panics.
            if index >= len(node):
                raise GoPanicError(f"runtime error: slice bounds out of range [{index + 1}:{len(node)}]")
            del node[index]
    return not node and bool(elements)
