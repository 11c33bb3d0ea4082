"""Comparison of texts that may have the keys of a map in different orders.

Go iterates over a map in a new order each time.
"""

from __future__ import annotations

import re

from replay.json import JSON

_PARTS = re.compile(r"[\w./:@-]+|\W")
"""Words, such as keys and values of a map, and the characters between them."""


def equal_texts(one: JSON, other: JSON) -> bool:
    """Return whether two values are equal, except for the order of words in their texts."""
    if one == other:
        return True
    if isinstance(one, str) and isinstance(other, str):
        return len(one) == len(other) and sorted(_PARTS.findall(one)) == sorted(_PARTS.findall(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal_texts(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal_texts, one, other))
    return False
