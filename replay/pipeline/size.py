"""Sizes as an operator writes them, and as reports print them."""

from __future__ import annotations

import re

from replay.errors import ReplayError

_SIZE = re.compile(r"(\d+)\s*(k|M|G|T)?B", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def octets(text: str) -> int:
    """How many bytes a text such as `256MB` says; raises ReplayError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ReplayError(f"no size `{text}`: write 500MB, 50GB, 2TB")
    return int(match[1]) * _UNITS[(match[2] or "").lower()]
