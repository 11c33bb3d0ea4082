"""Places in the input of an expression, for footprints and for changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache

from replay.json import JSON, FieldPath

Place = tuple[str | None, ...]
"""Names that lead from a binding to a part of it."""

ANY = None
"""Marker for any element of a list or any entry of a map."""

_SEGMENT = re.compile(r"""\.?([^.\[\]"]+)|\[(?:("(?:[^"\\]|\\.)*")|)\]""")


def changed_places(name: str, patch: Iterable[JSON]) -> frozenset[Place]:
    """Return the places where a patch changes a binding. A numeric key may be an index, and stands for any."""
    return frozenset([_place_of_pointer(name, operation["path"]) for operation in patch])


@lru_cache(maxsize=4096)
def _place_of_pointer(name: str, path: str) -> Place:
    keys = (key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:])
    return (name, *(ANY if key.isdigit() else key for key in keys))


def place_of(name: str, part: FieldPath) -> Place:
    """Return a part in the form in which a footprint names it."""
    return (name, *[ANY if isinstance(key, int) else key for key in part])


@lru_cache(maxsize=4096)
def read_places(footprint: frozenset[str], places: frozenset[Place]) -> frozenset[Place]:
    """Return the places that paths of a footprint read: at, above or below a path.

    A path that only tests presence does not read below itself.
    """
    paths = [(segments(path.removesuffix("?")), path.endswith("?")) for path in footprint]
    return frozenset(
        place
        for place in places
        if any(_overlaps(path, place) and not (is_test and len(place) > len(path)) for path, is_test in paths)
    )


def root_of(path: str) -> str:
    """Return the binding of a path in a footprint."""
    return path.rstrip("?").partition(".")[0].partition("[")[0]


@lru_cache(maxsize=4096)
def shown_roots(footprint: frozenset[str]) -> frozenset[str]:
    """Return the bindings that a result may contain, excluding those that are only tested for presence."""
    return frozenset(root_of(path) for path in footprint if not path.endswith("?"))


def _overlaps(one: Place, other: Place) -> bool:
    """Return whether one path equals or continues the other."""
    return all(left == right or left is ANY or right is ANY for left, right in zip(one, other, strict=False))


def segments(path: str) -> Place:
    """Return the names along a path of a footprint: `object.a[]["b.c"]` is `object`, `a`, any, `b.c`."""
    segments = _SEGMENT.findall(path)
    return tuple([name or (json.loads(quoted) if quoted else ANY) for name, quoted in segments])
