"""What of an input expressions read, as bytes: inputs of which these are equal give the same result, the same error and the same cost.

A footprint becomes a function that takes out of the input what stands at its paths; msgpack keeps apart what Python holds for equal
(`1`, `1.0` and `True`). Where something that is read is not known, that is part of it, with the reason: what is undetermined says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct, field

from replay.admission.alike.plain_bindings import PlainBindings, UnknownPart
from replay.admission.place import ANY, read_places, segments

ROOTS = frozenset({"object", "oldObject", "request", "namespaceObject"})
"""The bindings that are nothing but JSON."""
DEEPEST = 24
"""How many names a path of a projection may have: Python compiles no more than 200 nested brackets."""
LONGEST = 1024
"""How many bytes a projection may have that is worth remembering."""

_ABSENT = msgspec.msgpack.Ext(1, b"")
"""There is nothing; no JSON is written so, and as the next two neither."""
_OTHER = msgspec.msgpack.Ext(2, b"")
"""Marker for a value of another form than the path expects."""
_ENTRIES = msgspec.msgpack.Ext(3, b"")
"""Marker for the entries of a map whose path reads any entry."""
_encode = msgspec.msgpack.Encoder().encode

ProjectionKey = bytes | tuple[bytes, tuple[UnknownPart, ...]]
"""Values at the paths of a footprint, with the unknown ones and their reasons."""
Projection = Callable[[PlainBindings], ProjectionKey | None]
"""Function that projects bindings; it returns None for values that are not JSON or too long."""


class _Node(Struct):
    """Part of a footprint at one place: whether everything below is read, and the parts that lead on, by name or any."""

    is_read: bool = False
    names: dict[str, _Node] = field(default_factory=dict)
    any: _Node | None = None

    def at(self, name: str | None) -> _Node:
        """The node of a part."""
        if name is ANY:
            self.any = self.any or _Node()
            return self.any
        return self.names.setdefault(name, _Node())

    @property
    def is_test(self) -> bool:
        """Return whether only presence is read."""
        return not (self.is_read or self.names or self.any)


@lru_cache(maxsize=16384)
def projection(footprint: frozenset[str]) -> Projection | None:
    """Return the projection function of a footprint, None if it reads bindings outside `ROOTS` or is too deep."""
    tree = _tree(footprint)
    if not tree.names.keys() <= ROOTS or any(len(segments(path)) > DEEPEST for path in footprint):
        return None

    def with_unknown(content: bytes, bindings: PlainBindings) -> ProjectionKey:
        places = read_places(footprint, bindings.places)
        return (content, tuple([each for each in bindings.unknown if each.place in places])) if places else content

    return _compiled(tree, with_unknown)


def _tree(footprint: Iterable[str]) -> _Node:
    root = _Node()
    for path in sorted(footprint):
        node = root
        for segment in segments(path.removesuffix("?")):
            node = node.at(segment)
        node.is_read = node.is_read or not path.endswith("?")
    return root


_PROJECTED = """
def projected(v):
    try:
        content = encode([{roots}])
    except not_encoded:
        return None
    if len(content) > longest:
        return None
    return with_unknown(content, v) if v.places else content
"""


def _compiled(tree: _Node, with_unknown: Callable[[bytes, PlainBindings], ProjectionKey]) -> Projection:
    """Return the function for a tree, as compiled Python. Field names appear in it only as literals."""
    functions: list[str] = []
    roots = [_value(f"v[{name!r}]", child, f"v{index}", functions) for index, (name, child) in _numbered(tree)]
    functions.append(_PROJECTED.replace("{roots}", ", ".join(roots)))
    names: dict[str, Any] = {"absent": _ABSENT, "other": _OTHER, "entries": _ENTRIES, "__builtins__": {}}
    names |= {each.__name__: each for each in (type, dict, list, len)}
    names |= {"encode": _encode, "longest": LONGEST, "with_unknown": with_unknown}
    names["not_encoded"] = (TypeError, ValueError, OverflowError, RecursionError)
    exec(compile("\n".join(functions), "<projection>", "exec"), names)  # noqa: S102 - made here, of a footprint
    projected: Projection = names["projected"]
    return projected


def _numbered(node: _Node) -> Iterable[tuple[int, tuple[str, _Node]]]:
    return enumerate(node.names.items())


def _value(text: str, child: _Node, own: str, functions: list[str]) -> str:
    """Return an expression for what is read of a value, which it keeps as the local variable `own`.

    The elements of a list and the entries of a map have a function, which is added to `functions`.
    """
    if child.is_test:
        return f"{text} is None"
    if child.is_read:
        return text
    fields = [_field(own, name, each, f"{own}_{index}", functions) for index, (name, each) in _numbered(child)]
    other = f"{own} if {own} is absent else [other, {own}]"
    if child.any is None:
        return f"([{', '.join(fields)}] if type({own} := {text}) is dict else {other})"
    items, pairs = f"len({own})", f"[*{own}]"
    if not child.any.is_test:
        element = _value("p", child.any, "v", functions)
        name = f"element_{len(functions)}"
        functions.append(f"def {name}(p): return {element}")
        items, pairs = f"[{name}(p) for p in {own}]", f"[[k, {name}(p)] for k, p in {own}.items()]"
    entries = ", ".join(["entries", pairs, *fields])
    return f"({items} if type({own} := {text}) is list else [{entries}] if type({own}) is dict else {other})"


def _field(own: str, name: str, child: _Node, place: str, functions: list[str]) -> str:
    if child.is_test:  # what is null or otherwise empty stands for itself
        return f"{name!r} in {own} if {own}.get({name!r}, 1) else [{own}[{name!r}]]"
    return _value(f"{own}.get({name!r}, absent)", child, place, functions)
