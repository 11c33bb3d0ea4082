"""Names as labels of a chart: short enough for a phone, and still apart from each other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os.path import commonprefix

LONGEST = 30
_STATIC = ".static.k8s.io"
_SEPARATORS = re.compile(r"[-./_: ]")


def short_labels(names: Iterable[str]) -> list[str]:
    """A label for each name; what all long ones begin or end with gives way first, then the middle of a name."""
    plain = [name.removesuffix(_STATIC) for name in names]
    long = [name for name in plain if len(name) > LONGEST]
    start = _whole_parts(long)
    end = _whole_parts([name[start:][::-1] for name in long])
    return [_cut(_without(name, start, end)) if len(name) > LONGEST else name for name in plain]


def _whole_parts(names: list[str]) -> int:
    """The length of what several names begin with, up to the end of a part."""
    shared = commonprefix(names) if len(set(names)) > 1 else ""  # noqa: RUF071 - names, not paths
    return max((separator.end() for separator in _SEPARATORS.finditer(shared)), default=0)


def _without(name: str, start: int, end: int) -> str:
    middle = name[start : len(name) - end]
    return f"{'…' if start else ''}{middle}{'…' if end else ''}"


def _cut(name: str) -> str:
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST // 2]}…{name[len(name) - LONGEST // 2 + 1 :]}"
