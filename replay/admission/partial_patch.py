"""Mutation of a partly known object.

The mutation runs on the known part. Its result holds if it reads and touches nothing at, above or below an unknown part,
and no list with an unknown item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from replay.admission.conversion import Object
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.json_patch import apply, diff, equal, escaped

_LOOKED_INTO = (dict, list, Missing)
"""Types of unknown values, and of containers that may hold one."""


class Change(NamedTuple):
    """Effect of a mutation on an object.

    `operations` are those of a JSON patch. They also read the parts of the object that they name: `remove` and `test`
    fail if there is none.
    """

    apply: Callable[[JSON], JSON]
    operations: Sequence[Mapping[str, JSON]] = ()


def patch_partially(value: Object, change: Change) -> Object:
    """Return the changed object, or the `Missing` that it depends on.

    Raises what `change` raises, which is not called for a `Missing`.
    """
    if isinstance(value, Missing):
        return value
    if not isinstance(value, PartialObject):
        return change.apply(value)
    leaves = _leaves(value.value)
    for path, missing in leaves:
        if path.rpartition("/")[2].isdigit():
            return missing
    read = _touched(leaves, change.operations)
    if read is not None:
        return read
    certain = apply(value.value, [{"op": "remove", "path": path} for path, _ in leaves])
    operations = diff(certain, change.apply(certain))
    touched = _touched(leaves, operations)
    return touched or PartialObject(apply(value.value, operations), value.missing)


def touched_missing(value: JSON, operations: Sequence[Mapping[str, JSON]]) -> Missing | None:
    """Return an unknown part that a patch touches, if any."""
    return _touched(_leaves(value), operations)


def _touched(leaves: Iterable[tuple[str, Missing]], operations: Sequence[Mapping[str, JSON]]) -> Missing | None:
    """Return the first unknown part that a patch touches, or that it copies or moves."""
    pointers = [
        operation[name] for operation in operations for name in ("path", "from") if operation.get(name) is not None
    ]
    for path, missing in leaves:
        if any(_overlap(pointer, path) for pointer in pointers):
            return missing
    return None


def _leaves(value: JSON) -> list[tuple[str, Missing]]:
    """Return pointers to unknown parts, in the order of the object."""
    leaves: list[tuple[str, Missing]] = []
    left: list[tuple[str, JSON]] = [("", value)]
    while left:
        path, part = left.pop()
        if isinstance(part, Missing):
            leaves.append((path, part))
            continue
        for key in reversed(part if isinstance(part, dict) else range(len(part))):
            inner = part[key]
            if isinstance(inner, _LOOKED_INTO):
                left.append((f"{path}/{escaped(str(key))}", inner))
    return leaves


def _overlap(one: str, other: str) -> bool:
    """Return whether one pointer equals the other or is above it."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def is_same(one: Object | None, other: Object | None) -> bool:
    """Return whether two states of an object are equal in all known parts, and lack the same parts."""
    return one is other or equal(known_part(one), known_part(other))


def known_part(value: Object | None) -> Any:
    """Return the JSON of an object, with a `Missing` for each unknown part."""
    return value.value if isinstance(value, PartialObject) else value
