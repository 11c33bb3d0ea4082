"""Wildcards in names: `*` matches any text, `?` one character (github.com/IGLOU-EU/go-wildcard v1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def matches_wildcard(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == name
    if pattern == "*":
        return True
    # Backtracking would be cubic in the worst case: the pieces between stars are looked for from left to right.
    first, *others = _pieces(pattern)
    start = first.match(name)
    if start is None:
        return False
    if not others:
        return start.end() == len(name)
    at = start.end()
    for piece in others[:-1]:
        found = piece.search(name, at)
        if found is None:
            return False
        at = found.end()
    end = len(name) - _width(pattern)
    return end >= at and others[-1].match(name, end) is not None


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Return whether a name matches one of several patterns."""
    return any(matches_wildcard(pattern, name) for pattern in patterns)


def has_wildcard(text: str) -> bool:
    """Return whether a text contains a wildcard."""
    return "*" in text or "?" in text


@lru_cache(maxsize=4096)
def _pieces(pattern: str) -> tuple[re.Pattern[str], ...]:
    return tuple(
        re.compile("".join("." if character == "?" else re.escape(character) for character in piece), re.DOTALL)
        for piece in pattern.split("*")
    )


def _width(pattern: str) -> int:
    """Return the number of characters after the last star."""
    return len(pattern) - pattern.rfind("*") - 1
