"""Label selectors with wildcards (`pkg/engine/wildcards`, `metav1.LabelSelectorAsSelector`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from replay.kyverno.wildcard import has_wildcard, matches_wildcard

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LONGEST_NAME, _LONGEST_PREFIX = 63, 253


class SelectorError(Exception):
    """Selector with a key, value or operator that Kubernetes does not accept."""


def matches_selector(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether labels match a selector whose `matchLabels` can have wildcards. Raises SelectorError."""
    wanted: dict[str, str] = {}
    for key, value in (selector.get("matchLabels") or {}).items():
        is_pattern = has_wildcard(key) or has_wildcard(value)
        wanted_key, wanted_value = _expanded(key, value, labels) if is_pattern else (key, value)
        wanted[wanted_key] = wanted_value
    expressions = selector.get("matchExpressions") or ()
    _check(wanted, expressions)
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(each, labels) for each in expressions
    )


def _expanded(key: str, value: str, labels: Mapping[str, str]) -> tuple[str, str]:
    """Return the first label that fits. If none fits, wildcards become `0`, which is a valid label value."""
    for own_key in sorted(labels):
        if matches_wildcard(key, own_key) and matches_wildcard(value, labels[own_key]):
            return own_key, labels[own_key]
    return key.translate(_ZEROS), value.translate(_ZEROS)


_ZEROS = str.maketrans("*?", "00")


def _check(wanted: Mapping[str, str], expressions: Any) -> None:
    for key, value in wanted.items():
        _check_key(key)
        _check_value(value)
    for expression in expressions:
        _check_key(str(expression.get("key") or ""))
        operator, values = expression.get("operator"), expression.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                raise SelectorError(f"values of `{operator}` are empty")
        elif operator not in ("Exists", "DoesNotExist") or values:
            raise SelectorError(f"`{operator}` is no operator, or takes no values")
        for value in values:
            _check_value(str(value))


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise SelectorError(f"`{key}` is no key of a label")
    if slash and (not _PREFIX.fullmatch(prefix) or len(prefix) > _LONGEST_PREFIX):
        raise SelectorError(f"`{key}` is no key of a label")


def _check_value(value: str) -> None:
    if value and (not _NAME.fullmatch(value) or len(value) > _LONGEST_NAME):
        raise SelectorError(f"`{value}` is no value of a label")


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or ()
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return (labels.get(key) in values if key in labels else False) is (operator == "In")
