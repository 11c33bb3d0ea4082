"""Sets of fields as in `metadata.managedFields`, and the comparison of two objects.

The rules are those of sigs.k8s.io/structured-merge-diff/v6 (`fieldpath.Set`, `typed.ToFieldSet`, `Compare`,
`RemoveItems`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from replay.json import JSON
from replay.kube.merge.atom import Atom, ListAtom, MapAtom
from replay.kube.merge.merge_key import MergeError, element_text, item_key

OwnedPath = tuple[str, ...]
"""A path whose parts are written as in a `FieldsV1`: `f:name`, `k:{"name":"web"}`, `v:"a"`."""
FieldSet = frozenset[OwnedPath]

NO_FIELDS: FieldSet = frozenset()
_ABSENT: Any = object()
"""The absence of a value on one side of a comparison. Null is a value."""


class FieldChanges(NamedTuple):
    """Removed, changed and added fields of an object."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def without(self, fields: FieldSet) -> FieldChanges:
        """Return the comparison without some fields and all fields below them."""
        return FieldChanges(*(apart_from(each, fields) for each in self))


def decoded(fields: JSON) -> FieldSet:
    """Parse a `FieldsV1`. Raise `MergeError` for other values."""
    try:
        return frozenset(_decoded(fields, ()))
    except (AttributeError, orjson.JSONDecodeError) as error:
        raise MergeError("managedFields are not in the format FieldsV1") from error


def _decoded(fields: dict[str, JSON], at: OwnedPath) -> Iterator[OwnedPath]:
    for name, below in fields.items():
        if name == ".":
            continue
        path = (*at, _canonical(name))
        # A part is a member itself if it has no children, or the child `.`.
        if not below or "." in below:
            yield path
        yield from _decoded(below, path)


@lru_cache(maxsize=10_000)
def _canonical(part: str) -> str:
    """Return a part in the form that `_item_part` writes."""
    kind, value = part[:2], part[2:]
    return kind + _text(orjson.loads(value)) if kind in ("k:", "v:") else part


def _text(value: JSON) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def encoded(fields: FieldSet) -> JSON:
    """Return a set as a `FieldsV1`."""
    tree: dict[str, Any] = {}
    for path in sorted(fields):
        below = tree
        for part in path:
            below = below.setdefault(part, {})
        below["."] = {}
    return _with_leaves(tree)


def _with_leaves(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the tree with an empty map for each member without children."""
    return {} if tree.keys() == {"."} else {name: _with_leaves(below) for name, below in tree.items()}


def path_text(path: OwnedPath) -> str:
    """Return a path as in messages: `.spec.containers[name="web"].image`."""
    return "".join(map(_part_text, path))


def _part_text(part: str) -> str:
    kind, value = part[:2], part[2:]
    if kind == "k:":
        return element_text(tuple(orjson.loads(value).items()))
    if kind == "v:":
        return element_text(("", orjson.loads(value)))
    return f".{value}" if kind == "f:" else f"[{value}]"


def apart_from(fields: FieldSet, excluded: FieldSet) -> FieldSet:
    """Return a set without some fields and all fields below them (`Set.RecursiveDifference`)."""
    if not excluded:
        return fields
    return frozenset(
        path for path in fields if not any(path[:length] in excluded for length in range(1, len(path) + 1))
    )


def fields_of(atom: Atom, value: JSON) -> FieldSet:
    """Return the fields that a configuration sets (`TypedValue.ToFieldSet`).

    Raise `MergeError` for an item without a key.
    """
    return frozenset(path for path in _fields(atom, value, ()) if path)


def _fields(atom: Atom, value: JSON, at: OwnedPath) -> Iterator[OwnedPath]:
    fitting = atom.deduce(value)
    if fitting.map is not None:
        yield from _fields_of_map(fitting.map, value, at)
    elif fitting.scalar is not None:
        yield at
    elif fitting.list is not None:
        yield from _fields_of_list(fitting.list, value, at)


def _fields_of_map(atom: MapAtom, value: JSON, at: OwnedPath) -> Iterator[OwnedPath]:
    if atom.atomic:
        yield at
        return
    for name, inner in value.items() if isinstance(value, dict) else ():
        declared, path = _field(atom, name), (*at, f"f:{name}")
        yield from _fields(declared, inner, path)
        # A map entry is a member itself, a declared field only if it is empty (`toFieldSetWalker.visitMapItems`).
        if inner is None or inner == {} or name not in atom.fields:
            yield path


def _fields_of_list(atom: ListAtom, value: JSON, at: OwnedPath) -> Iterator[OwnedPath]:
    if not atom.associative:
        yield at
        return
    for part, items in _items(atom, value).items():
        yield (*at, part)
        # Duplicate items are owned as a whole (`toFieldSetWalker.visitListItems`).
        if len(items) == 1:
            yield from _fields(atom.element, items[0], (*at, part))


def _field(atom: MapAtom, name: str) -> Atom:
    declared = atom.fields.get(name, atom.element)
    if declared is None:
        raise MergeError(f".{name}: field not declared in schema")
    return declared


def _items(atom: ListAtom, value: JSON) -> dict[str, list[JSON]]:
    """Return the items of an associative list by their key. Several items may have the same key."""
    items: dict[str, list[JSON]] = {}
    for item in value if isinstance(value, list) else ():
        items.setdefault(_item_part(atom, item), []).append(item)
    return items


def _item_part(atom: ListAtom, item: JSON) -> str:
    item_key(atom, item)  # raises MergeError for an item without a key
    if not atom.keys:
        return f"v:{_text(item)}"
    defaults = atom.element.map.defaults if atom.element.map is not None else {}
    named = {
        name: item[name] if name in item else defaults[name] for name in atom.keys if name in item or name in defaults
    }
    return f"k:{_text(named)}"


def compared(atom: Atom, old: JSON, new: JSON) -> FieldChanges:
    """Return the difference between two objects (`TypedValue.Compare`)."""
    comparison = _Compared()
    comparison.compare(atom, old, new, (), in_leaf=False)
    return FieldChanges(
        *(
            frozenset(path for path in each if path)
            for each in (comparison.removed, comparison.modified, comparison.added)
        )
    )


class _Compared:
    """A comparison in progress (`compareWalker`)."""

    def __init__(self) -> None:
        self.removed: set[OwnedPath] = set()
        self.modified: set[OwnedPath] = set()
        self.added: set[OwnedPath] = set()

    def compare(self, atom: Atom, old: JSON, new: JSON, at: OwnedPath, *, in_leaf: bool) -> None:
        """Compare two values of a type. Below a leaf, which is an atomic map or list, nothing counts."""
        if old is new:
            return
        was, becomes = atom.deduce(old), atom.deduce(new)
        if new is _ABSENT:
            in_leaf = self._handle(was, old, new, at, in_leaf=in_leaf)
        else:
            # If the type of the value changes, it is compared as both types (`compareWalker.compare`).
            if old is not _ABSENT and (was.map, was.scalar, was.list) != (becomes.map, becomes.scalar, becomes.list):
                self._handle(was, old, new, at, in_leaf=in_leaf)
            in_leaf = self._handle(becomes, old, new, at, in_leaf=in_leaf)
        if not in_leaf:
            self._note(old, new, at)

    def _note(self, old: JSON, new: JSON, at: OwnedPath) -> None:
        if old is _ABSENT:
            self.added.add(at)
        elif new is _ABSENT:
            self.removed.add(at)

    def _handle(self, atom: Atom, old: JSON, new: JSON, at: OwnedPath, *, in_leaf: bool) -> bool:
        """Compare two values as one type, and return whether it is a leaf."""
        if atom.map is not None:
            is_empty = not (isinstance(old, dict) and old) and not (isinstance(new, dict) and new)
            if not (atom.map.atomic or is_empty):
                self._compare_maps(atom.map, old, new, at, in_leaf=in_leaf)
                return in_leaf
        elif atom.scalar is None and atom.list is not None:
            is_empty = not (isinstance(old, list) and old) and not (isinstance(new, list) and new)
            if atom.list.associative and not is_empty:
                self._compare_lists(atom.list, old, new, at, in_leaf=in_leaf)
                return in_leaf
        if not in_leaf:
            if old is _ABSENT or new is _ABSENT:
                self._note(old, new, at)
            elif not _equal(old, new):
                self.modified.add(at)
        return True

    def _compare_maps(self, atom: MapAtom, old: JSON, new: JSON, at: OwnedPath, *, in_leaf: bool) -> None:
        one, other = (each if isinstance(each, dict) else {} for each in (old, new))
        for name in one.keys() | other.keys():
            path = (*at, f"f:{name}")
            self.compare(_field(atom, name), one.get(name, _ABSENT), other.get(name, _ABSENT), path, in_leaf=in_leaf)

    def _compare_lists(self, atom: ListAtom, old: JSON, new: JSON, at: OwnedPath, *, in_leaf: bool) -> None:
        """Compare two associative lists. Items with the same key are compared as a whole."""
        one, other = _items(atom, old), _items(atom, new)
        for part in one.keys() | other.keys():
            left, right, path = one.get(part, []), other.get(part, []), (*at, part)
            # Several items with one key are compared as if their list were atomic.
            if len(left) <= 1 and len(right) <= 1:
                mine, theirs = (each[0] if each else _ABSENT for each in (left, right))
                self.compare(atom.element, mine, theirs, path, in_leaf=in_leaf)
            elif len(left) > 1 and len(right) > 1:
                if not _equal(left, right):
                    self.modified.add(path)
            elif len(left) > 1:
                if right:
                    self.compare(atom.element, _ABSENT, right[0], path, in_leaf=in_leaf)
                self.removed.add(path)
            else:
                if left:
                    self.compare(atom.element, left[0], _ABSENT, path, in_leaf=in_leaf)
                self.added.add(path)


def _equal(one: JSON, other: JSON) -> bool:
    """Return whether two values are equal. A boolean is not a number."""
    return one == other and (isinstance(one, bool) is isinstance(other, bool))


def with_named(atom: Atom, fields: FieldSet) -> FieldSet:
    """Return a set with the declared fields above its members (`Set.EnsureNamedFieldsAreMembers`)."""
    return fields | {path for member in fields for path in _named_above(atom, member)}


def _named_above(atom: Atom, member: OwnedPath) -> Iterator[OwnedPath]:
    inner: Atom | None = atom
    for length, part in enumerate(member[:-1], 1):
        kind, name = part[:2], part[2:]
        if inner is None:
            return
        if kind == "f:" and inner.map is not None:
            if name in inner.map.fields:
                yield member[:length]
            inner = inner.map.fields.get(name, inner.map.element)
        else:
            inner = inner.list.element if kind == "k:" and inner.list is not None else None


def without(atom: Atom, value: JSON, fields: Iterable[OwnedPath]) -> JSON:
    """Return an object without some fields (`TypedValue.RemoveItems`), null if nothing is left."""
    tree: dict[str, Any] = {}
    for path in fields:
        below = tree
        for part in path[:-1]:
            below = below.setdefault(part, {})
        below.setdefault(path[-1], {})["."] = True
    return _without(atom, value, tree) if tree else value


def _without(atom: Atom, value: JSON, removed: dict[str, Any]) -> JSON:
    fitting = atom.deduce(value)
    if fitting.map is not None:
        return _map_without(fitting.map, value, removed)
    if fitting.scalar is None and fitting.list is not None:
        return _list_without(fitting.list, value, removed)
    return value


def _map_without(atom: MapAtom, value: JSON, removed: dict[str, Any]) -> JSON:
    # An atomic map is removed as a whole (`removingWalker.doMap`).
    if atom.atomic or not isinstance(value, dict):
        return None
    fields = {}
    for name, inner in value.items():
        below = removed.get(f"f:{name}", {})
        if "." not in below:
            fields[name] = _without(_field(atom, name), inner, below) if below else inner
    return fields or None


def _list_without(atom: ListAtom, value: JSON, removed: dict[str, Any]) -> JSON:
    # An atomic list is removed as a whole (`removingWalker.doList`).
    if not atom.associative or not isinstance(value, list):
        return None
    items = []
    for item in value:
        below = removed.get(_item_part(atom, item), {})
        if "." not in below:
            items.append(_without(atom.element, item, below) if below else item)
    return items or None
