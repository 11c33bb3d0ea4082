"""The known parts of one object: its JSON, the source of that knowledge, and the unknown paths.

Objects are never changed in place, because states share parts with each other and with the attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from replay.json import JSON, FieldPath
from replay.kube.attributes import Basis, Missing, PartialObject


class Hole(NamedTuple):
    """A path of an object whose value is unknown; `reason` and `fix` as in `Missing`."""

    path: FieldPath
    reason: str
    fix: str = ""


class Known(Struct, frozen=True):
    """An object (or null) with its unknown parts. At a hole the value is arbitrary and must not be read."""

    value: JSON
    basis: Basis
    holes: tuple[Hole, ...] = ()

    def with_value(self, path: FieldPath, value: JSON) -> Known:
        """Return the object with another value at a path, which is known then."""
        return Known(replaced(self.value, path, value), self.basis, self.holes and _holes_outside(self.holes, path))

    def with_fields(self, path: FieldPath, fields: Mapping[str, JSON]) -> Known:
        """Return the object with entries added to the map at a path, which are known then."""
        if not fields:
            return self
        if len(path) == 1:  # as nearly always
            value = {**self.value, path[0]: {**(self.value.get(path[0]) or {}), **fields}}
        else:
            value = replaced(self.value, path, {**(get(self.value, path) or {}), **fields})
        holes = self.holes
        for name in fields if holes else ():
            holes = _holes_outside(holes, (*path, name))
        return Known(value, self.basis, holes)

    def without(self, path: FieldPath) -> Known:
        """Return the object without a path, which is known to be absent then."""
        return Known(removed(self.value, path), self.basis, self.holes and _holes_outside(self.holes, path))

    def with_holes(self, holes: Iterable[Hole]) -> Known:
        """Return the object with more unknown paths."""
        return Known(self.value, self.basis, (*self.holes, *holes))

    def as_basis(self, basis: Basis) -> Known:
        """Return the object with another basis."""
        return self if basis is self.basis else Known(self.value, basis, self.holes)


GONE = Known(None, Basis.RECONSTRUCTED)
"""An object that is known to be absent by derivation."""


def _holes_outside(holes: tuple[Hole, ...], path: FieldPath) -> tuple[Hole, ...]:
    """Return the holes that are not at or below a path."""
    return tuple([hole for hole in holes if hole.path[: len(path)] != path])


def attribute(state: Known | Missing, root: str) -> JSON | PartialObject | Missing | None:
    """Return the value for `Attributes` of an object that is `root` in CEL (`object`, `oldObject`)."""
    if isinstance(state, Missing):
        return Missing(root, state.reason, state.fix)
    if not state.holes or state.value is None:
        return state.value
    value, missing = state.value, []
    for hole in outermost(state.holes):
        leaf = Missing(root + rendered(hole.path), hole.reason, hole.fix)
        value = replaced(value, hole.path, leaf)
        missing.append(leaf)
    return PartialObject(value, tuple(missing))


def outermost(holes: Iterable[Hole]) -> list[Hole]:
    """Return the holes that are not inside another one."""
    distinct: list[Hole] = []
    # Shorter paths come first, because only they can be around others.
    for hole in sorted(holes, key=lambda hole: len(hole.path)):
        if not any(hole.path[: len(outer.path)] == outer.path for outer in distinct):
            distinct.append(hole)
    return distinct


def shown(
    states: Mapping[str, Known | Missing],
) -> tuple[list[JSON | PartialObject | Missing | None], dict[str, Basis | None]]:
    """Return the values for `Attributes`, and the basis of each that an outcome shows. Both are None if the API says null.

    `states` are by the names that the objects have in CEL.
    """
    values: list[JSON | PartialObject | Missing | None] = []
    basis: dict[str, Basis | None] = {}
    for root, state in states.items():
        if isinstance(state, Known) and not state.holes:
            values.append(state.value)
        else:
            values.append(attribute(state, root))
        is_null = isinstance(state, Known) and state.value is None
        basis[root] = Basis.MISSING if isinstance(state, Missing) else None if is_null else state.basis
    return values, basis


def rendered(path: FieldPath) -> str:
    """Return a path as CEL writes it after the name of the object: `.spec.volumes[1].name`."""
    return "".join([f"[{part}]" if isinstance(part, int) else _field(part) for part in path])


def _field(name: str) -> str:
    return f".{name}" if name.replace("_", "a").isalnum() and not name[0].isdigit() else f"['{name}']"


_PART = re.compile(r"\.(\w+)|\['([^']*)'\]|\[(\d+)\]")


def path_from_text(text: str) -> FieldPath:
    """Parse the output of `rendered`. Raise ValueError for other texts."""
    path: list[str | int] = []
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(text)
        field, quoted, index = part.groups()
        path.append(int(index) if index is not None else quoted if field is None else field)
        at = part.end()
    return tuple(path)


def get(value: JSON, path: FieldPath) -> JSON:
    """Return the value at a path, None if absent."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def replaced(value: JSON, path: FieldPath, leaf: JSON) -> JSON:
    """Return a copy with another value at a path. Missing maps are created."""
    # The list gives the value itself a place, so that an empty path needs no case of its own.
    root: list[JSON] = [value]
    container: Any = root
    key: Any = 0
    for part in path:
        inner = container[key]
        if isinstance(inner, list) and isinstance(part, int):
            copied: Any = list(inner)
        else:
            copied = dict(inner) if isinstance(inner, dict) else {}
            copied.setdefault(part)
        container[key] = copied
        container, key = copied, part
    container[key] = leaf
    return root[0]


def removed(value: JSON, path: FieldPath) -> JSON:
    """Return a copy without the map entry at the end of a path."""
    *above, last = path
    container = value
    for part in above:
        container = container.get(part) if isinstance(container, dict) else None
    if not isinstance(container, dict) or last not in container:
        return value
    root = copied = dict(value)
    for part in above:
        copied[part] = dict(copied[part])
        copied = copied[part]
    del copied[last]
    return root


def differences(one: JSON, other: JSON, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the paths at which two values differ. Lists of different lengths differ as a whole."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            if key not in one or key not in other:
                yield (*path, key)
            else:
                yield from differences(one[key], other[key], (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, (*path, index))
    # In Python `True` equals `1`, and in JSON it does not.
    elif type(one) is not type(other) or one != other:
        yield path


def merged(candidates: Sequence[Known | Missing], reason: str, fix: str = "") -> Known | Missing:
    """Return what several possible states have in common, with a hole wherever they differ.

    The result is `Missing` if one state is, or if some are null and others are not.
    """
    first = candidates[0]
    for other in candidates[1:]:
        if isinstance(first, Missing):
            return first
        if isinstance(other, Missing):
            return other
        if first.value is other.value and first.holes == other.holes:
            continue
        # An object that exists in one state only cannot be shown with holes.
        if (first.value is None) is not (other.value is None):
            return Missing("", reason, fix)
        # As text, because Python cannot order paths that mix names and indices.
        holes = [Hole(path, reason, fix) for path in sorted(differences(first.value, other.value), key=str)]
        if any(not hole.path for hole in holes):
            return Missing("", reason, fix)
        paths = {hole.path for hole in first.holes}
        extra = [hole for hole in (*other.holes, *holes) if hole.path not in paths]
        first = Known(first.value, Basis.RECONSTRUCTED, (*first.holes, *extra))
    return first
