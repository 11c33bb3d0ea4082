"""Types of Rego values and their algebra (`opa/v1/types/types.go`), and the signatures of builtins.

A type that is not known is None. It is written `???`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

from msgspec import Struct

from replay.gatekeeper.rego.value import Number


class Type(Struct, frozen=True):
    """Type of a value: `null`, `boolean`, `number`, `string`, `array`, `object`, `set`, `any` or `function`.

    `parts` are the first elements of an array, the types of a union (`any`, empty for all values), or the arguments of a
    function. `fields` are the known fields of an object. `of` is the type of all other elements or fields, of the members
    of a set, or of a function's result, and `key` the type of the other keys of an object.
    """

    kind: str
    parts: tuple[Type | None, ...] = ()
    fields: tuple[tuple[Any, Type | None], ...] = ()
    key: Type | None = None
    of: Type | None = None
    is_open: bool = False
    """Whether an object may have other fields."""
    size: int = 1
    """Number of types that it consists of."""

    def __str__(self) -> str:
        """Return the type as OPA writes it."""
        known = [text(part) for part in self.parts] + [f"{_key_text(key)}: {text(value)}" for key, value in self.fields]
        if self.kind == "function":
            return f"{arguments_text(self.parts)} => {text(self.of)}"
        shown = self.kind + (f"<{', '.join(known)}>" if known else "")
        if self.kind == "object":
            return f"{shown}[{text(self.key)}: {text(self.of)}]" if self.is_open else shown
        return f"{shown}[{text(self.of)}]" if self.of is not None or self.kind == "set" else shown


def text(found: Type | None) -> str:
    """Return a type as OPA writes it."""
    return "???" if found is None else str(found)


def arguments_text(types: Iterable[Type | None]) -> str:
    """Return the types of arguments as OPA writes them."""
    return f"({', '.join(map(text, types))})"


def _key_text(key: Any) -> str:
    if key is None:
        return "<nil>"
    return key.text if isinstance(key, Number) else str(key).lower() if isinstance(key, bool) else str(key)


ANY, NULL, BOOLEAN, NUMBER, STRING = map(Type, ("any", "null", "boolean", "number", "string"))
_MAX_SIZE = 1000
"""Limit of ours for the size of a type. Larger ones are `ANY`, because variables can double a type in each literal."""


def _bounded(kind: str, **parts: Any) -> Type:
    found = Type(kind, **parts)
    inner = [*found.parts, *(value for _, value in found.fields), found.key, found.of]
    size = 1 + sum(part.size for part in inner if part is not None)
    return Type(kind, **parts, size=size) if size <= _MAX_SIZE else ANY


def array_of(items: Iterable[Type | None], rest: Type | None = None) -> Type:
    """Return the type of an array with these elements, and any number of others of type `rest`."""
    return _bounded("array", parts=tuple(items), of=rest)


def set_of(member: Type | None) -> Type:
    """Return the type of a set."""
    return _bounded("set", of=member)


def object_of(fields: Mapping[Any, Type | None], rest: tuple[Type | None, Type | None] | None = None) -> Type:
    """Return the type of an object with these fields. `rest` is the type of the keys and values of all others."""
    known = tuple(sorted(fields.items(), key=lambda entry: rank(entry[0])))
    key, of = rest or (None, None)
    return _bounded("object", fields=known, key=key, of=of, is_open=rest is not None)


def function_of(arguments: Iterable[Type | None], result: Type | None) -> Type:
    """Return the type of a function."""
    return _bounded("function", parts=tuple(arguments), of=result)


def scalar_type(value: Any) -> Type:
    """Return the type of a constant."""
    if isinstance(value, bool):
        return BOOLEAN
    return NULL if value is None else STRING if isinstance(value, str) else NUMBER


def rank(key: Any) -> tuple[int, Any]:
    """Return the place of a key among those of an object."""
    if key is None or isinstance(key, bool):
        return (0 if key is None else 1, bool(key))
    return (3, key) if isinstance(key, str) else (2, key.value if isinstance(key, Number) else key)


_ORDER = {"null": 0, "boolean": 1, "number": 2, "string": 3, "array": 4, "object": 5, "set": 6, "any": 7, "function": 8}


@lru_cache(maxsize=4096)
def _sorted(found: Type | None) -> tuple[Any, ...]:
    """Return the place of a type among others (`types.Compare`)."""
    if found is None:
        return (-1,)
    rest: tuple[Any, ...] = (found.of is not None, _sorted(found.of))
    if found.kind == "object":
        rest = (found.is_open, _sorted(found.key), _sorted(found.of))
    fields = tuple((rank(key), _sorted(value)) for key, value in found.fields)
    return (_ORDER[found.kind], *rest, fields, tuple(map(_sorted, found.parts)))


def union(one: Type | None, other: Type | None) -> Type | None:
    """Return the type of values that have one of two types (`types.Or`)."""
    if one is None or other is None:
        return other if one is None else one
    if "function" in (one.kind, other.kind):
        if one.kind != other.kind or len(one.parts) != len(other.parts):
            return None
        return function_of(map(union, one.parts, other.parts), union(one.of, other.of))
    if one == other:
        return one
    members: set[Type | None] = set()
    for found in (one, other):
        if found == ANY:
            return ANY
        members |= set(found.parts) if found.kind == "any" else {found}
    return _bounded("any", parts=tuple(sorted(members, key=_sorted)))


def is_part(one: Type | None, other: Type | None) -> bool:
    """Return whether `one` is `other` or a type of the union `one` (`types.Contains`)."""
    if one is not None and one.kind == "any":
        return not one.parts or other in one.parts
    return one == other


def selected(found: Type | None, key: Any) -> Type | None:
    """Return the type of the element at a constant key, or None (`types.Select`)."""
    if found is None:
        return None
    if found.kind == "array":
        place = key if type(key) is int else -1
        return None if place < 0 else found.parts[place] if place < len(found.parts) else found.of
    if found.kind == "object":
        for own, value in found.fields:
            if rank(own) == rank(key):
                return value
        return found.of if found.is_open and is_part(found.key, scalar_type(key)) else None
    if found.kind == "set":
        own = scalar_type(key)
        if found.of == own:
            return own
        return own if found.of is not None and found.of.kind == "any" and is_part(found.of, own) else None
    if found.kind == "any":
        return ANY if not found.parts else reduce(union, (selected(part, key) for part in found.parts), None)
    return None


def keys_of(found: Type | None) -> Type | None:
    """Return the type of the keys of a collection, or None (`types.Keys`)."""
    if found is None:
        return None
    if found.kind == "array":
        return NUMBER
    if found.kind == "object":
        known = reduce(union, (scalar_type(key) for key, _ in found.fields), None)
        return union(known, found.key) if found.is_open else known
    if found.kind == "set":
        return found.of
    if found.kind == "any":
        return ANY if not found.parts else reduce(union, map(keys_of, found.parts), None)
    return None


def values_of(found: Type | None) -> Type | None:
    """Return the type of the elements of a collection, or None (`types.Values`)."""
    if found is None:
        return None
    if found.kind == "any":
        return ANY if not found.parts else reduce(union, map(values_of, found.parts), None)
    if found.kind in ("array", "object", "set"):
        known = [*found.parts, *(value for _, value in found.fields)]
        return reduce(union, [*known, found.of], None)
    return None


def is_unknown(found: Type | None) -> bool:
    """Return whether a part of a type is not known (`types.Nil`)."""
    if found is None:
        return True
    if found.kind in ("array", "function") and any(map(is_unknown, found.parts)):
        return True
    if found.kind == "object":
        return any(is_unknown(value) for _, value in found.fields) or (
            found.is_open and (is_unknown(found.key) or is_unknown(found.of))
        )
    if found.kind == "array":
        return found.of is not None and is_unknown(found.of)
    return found.kind in ("set", "function") and is_unknown(found.of)


def fits(one: Type | None, other: Type | None) -> bool:
    """Return whether a value can have both types (`ast.unifies`)."""
    if one is None or other is None:
        return False
    unions = [(a, b) for a, b in ((one, other), (other, one)) if a.kind == "any"]
    if unions:
        return any(b.kind != "function" and (not a.parts or any(fits(part, b) for part in a.parts)) for a, b in unions)
    if one.kind != other.kind:
        return False
    if one.kind == "array":
        count = max(len(one.parts), len(other.parts))
        return all(fits(_item(one, place), _item(other, place)) for place in range(count)) and _rest_fits(one, other)
    if one.kind == "object":
        return _fields_fit(one, other) and _fields_fit(other, one) and _rest_fits(one, other)
    if one.kind == "set":
        return fits(one.of, other.of)
    return one.kind != "function" or (len(one.parts) == len(other.parts) and all(map(fits, one.parts, other.parts)))


def _item(found: Type, place: int) -> Type | None:
    return found.parts[place] if place < len(found.parts) else found.of


def _rest_fits(one: Type, other: Type) -> bool:
    return one.of is None or other.of is None or fits(one.of, other.of)


def _fields_fit(one: Type, other: Type) -> bool:
    for key, value in one.fields:
        theirs = selected(other, key)
        if theirs is None:
            if one.of is None and other.of is None:
                return False
        elif not fits(value, theirs):
            return False
    return True


class Signature(Struct, frozen=True):
    """Signature of a builtin: its type, and its arguments and result as OPA writes them."""

    type: Type
    text: str


_TOKEN = re.compile(r"[A-Za-z_0-9?.]+(?: [a-z]+)?|[<>\[\],:]")


class _Parser:
    """Parser of types as OPA writes them, with names of arguments."""

    def __init__(self, line: str) -> None:
        self._tokens = _TOKEN.findall(line)
        self._at = 0

    def _next(self, wanted: str) -> bool:
        found = self._tokens[self._at : self._at + 1] == [wanted]
        self._at += found
        return found

    def named(self) -> list[Type | None]:
        """Return the types of arguments, without their names."""
        found = []
        while self._at < len(self._tokens):
            if self._tokens[self._at + 1 : self._at + 2] == [":"]:
                self._at += 2
            found.append(self.type())
            self._next(",")
        return found

    def type(self) -> Type | None:
        """Return one type."""
        kind = self._tokens[self._at]
        self._at += 1
        parts: list[Type | None] = []
        fields: dict[str, Type | None] = {}
        if self._next("<"):
            while not self._next(">"):
                if kind == "object":
                    name, self._at = self._tokens[self._at], self._at + 2
                    fields[name] = self.type()
                else:
                    parts.append(self.type())
                self._next(",")
        key = of = None
        is_open = self._next("[")
        if is_open:
            of = self.type()
            if self._next(":"):
                key, of = of, self.type()
            self._next("]")
        if kind == "???":
            return None
        if kind == "any":
            return _bounded("any", parts=tuple(sorted(parts, key=_sorted)))
        if kind == "object":
            return object_of(fields, (key, of) if is_open else None)
        return _bounded(kind, parts=tuple(parts), of=of)


@lru_cache(maxsize=1)
def signatures() -> dict[str, Signature]:
    """Return the signatures of the builtins by name."""
    found = {}
    for line in (Path(__file__).parent / "builtins" / "signatures.txt").read_text("utf-8").splitlines():
        head, _, result = line.partition(" => ")
        name, _, arguments = head.removesuffix(")").partition("(")
        own = function_of(_Parser(arguments.replace("...", "")).named(), *_Parser(result).named())
        found[name] = Signature(own, f"({', '.join(part for part in (arguments, result) if part and part != '???')})")
    return found
