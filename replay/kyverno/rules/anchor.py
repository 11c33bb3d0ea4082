"""Anchors: keys of a pattern with a meaning of their own, such as `(name)` and `=(image)` (`pkg/engine/anchor/anchor.go`)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

CONDITION, GLOBAL, NEGATION, ADD, EQUALITY, EXISTENCE = "", "<", "X", "+", "=", "^"
_ANCHOR = re.compile(r"([+<=X^])?\((.+)\)")


class Anchor(NamedTuple):
    """A modifier, and the key that it is about."""

    modifier: str
    key: str

    def __str__(self) -> str:
        """As the pattern spells it."""
        return f"{self.modifier}({self.key})"


@lru_cache(maxsize=16384)
def parse_anchor(text: str) -> Anchor | None:
    """The anchor of a key, None for a plain key."""
    match = _ANCHOR.fullmatch(text.strip())
    return Anchor(match[1] or "", match[2]) if match is not None else None


def is_anchor(text: str, *modifiers: str) -> bool:
    """Whether a key is an anchor with one of the modifiers."""
    anchor = parse_anchor(text)
    return anchor is not None and anchor.modifier in modifiers
