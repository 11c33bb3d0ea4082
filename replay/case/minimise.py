"""Reduction of a case: parts that do not matter are removed, one by one.

A part is tried before its own parts, so most objects need few decisions. The last items of a list come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from replay.json import JSON, FieldPath
from replay.reconstruct.record.known import get

_WHOLE = ("validatedObject", "options", "missing", "authorizer", "objects", "oldObject", "object", "user", "namespace")
"""Fields of a case that may be removed, in order."""
_KEPT = frozenset(
    {
        ("object",),
        ("oldObject",),
        ("object", "metadata"),
        ("oldObject", "metadata"),
        ("validatedObject", "metadata"),
        ("object", "apiVersion"),
        ("object", "kind"),
        ("oldObject", "apiVersion"),
        ("oldObject", "kind"),
        ("validatedObject", "apiVersion"),
        ("validatedObject", "kind"),
        ("object", "metadata", "name"),
        ("oldObject", "metadata", "name"),
        ("validatedObject", "metadata", "name"),
    }
)
"""Fields that identify an object. Without them a case cannot be read."""
_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")
_ROUNDS = 4


def minimised(case: dict[str, JSON], is_held: Callable[[dict[str, JSON]], bool]) -> dict[str, JSON]:
    """Return the case without parts that do not matter. `is_held` returns whether a reduced case has the same decision."""
    for _ in range(_ROUNDS):
        smaller = _pass(case, is_held)
        if smaller == case:
            break
        case = smaller
    return case


def _pass(case: dict[str, JSON], is_held: Callable[[dict[str, JSON]], bool]) -> dict[str, JSON]:
    """Try once to remove every part."""
    for name in _WHOLE:
        if name not in case:
            continue
        pending: list[FieldPath] = [(name,)]
        while pending:
            path = pending.pop()
            without = _without(case, path)
            if not _is_kept(path) and is_held(without):
                case = without
            else:
                pending += _parts(case, path)
    return case


def _is_kept(path: FieldPath) -> bool:
    return path in _KEPT or (path[0] == "objects" and len(path) == 3 and path[2] in _OBJECT_FIELDS)


def _parts(case: dict[str, JSON], path: FieldPath) -> Iterator[FieldPath]:
    """Yield the parts at a path in stack order: the last items of a list first."""
    value = get(case, path)
    if isinstance(value, dict):
        yield from ((*path, name) for name in value)
    elif isinstance(value, list):
        yield from ((*path, index) for index in range(len(value)))


def _without(value: JSON, path: FieldPath) -> JSON:
    """Return a copy without the value at a path."""
    head, rest = path[0], path[1:]
    if isinstance(value, list) and isinstance(head, int):
        return [*value[:head], *([_without(value[head], rest)] if rest else []), *value[head + 1 :]]
    return {
        name: _without(part, rest) if name == head else part for name, part in value.items() if name != head or rest
    }
