"""Anchors: keys of a pattern with a special meaning, such as `(name)` and `=(image)` (`pkg/engine/anchor/anchor.go`)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

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


def is_anchor(text: str, *modifiers: str) -> bool:
    """Return whether a key is an anchor with one of the modifiers."""
    anchor = parse_anchor(text)
    return anchor is not None and anchor.modifier in modifiers
