"""Runtime of compiled rules: the context of a query, references, iterations and conflicts (`opa/v1/topdown/eval.go`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from replay.gatekeeper.rego.lexer import limited
from replay.gatekeeper.rego.value import (
    UNDEFINED,
    Number,
    Object,
    PartialObject,
    Set,
    UnknownValue,
    Value,
    compare,
    equal,
    key_of,
    members_of,
    object_of,
    pairs_of,
)

ONCE = (None,)
_PARTS: dict[type, Callable[[Any], Collection[Value]]] = {
    list: lambda value: value,
    dict: dict.values,
    Set: lambda value: [*value.known.values(), *value.partial] if value.partial else value.known.values(),
    Object: lambda value: [part for entry in value.entries.values() for part in entry],
}
"""Parts of a collection, by its type."""
_COLLECTIONS = frozenset(_PARTS)
STEPS = 4_000_000
"""Step budget of a query. An element of an iteration and a call cost one step each, as do about 64 bytes of memory.

The budget amounts to a few seconds and a few hundred MiB.
"""
_SHORT, _ENTRY, _LARGE = 64, 3, 2**1000
SCANNED = 1024
"""Characters of a string that an operation reads in one step."""


SMALL = frozenset(
    [
        "abs",
        "all",
        "any",
        "ceil",
        "contains",
        "count",
        "div",
        "endswith",
        "equal",
        "floor",
        "gt",
        "gte",
        "indexof",
        "internal.member_2",
        "lt",
        "lte",
        "max",
        "min",
        "neq",
        "object.get",
        "object.subset",
        "re_match",
        "regex.match",
        "rem",
        "round",
        "startswith",
        "sum",
        "to_number",
        "trace",
        "type_name",
        "strings.any_prefix_match",
        "strings.any_suffix_match",
        "strings.count",
        "glob.match",
        "units.parse",
        "units.parse_bytes",
    ]
)
SMALL_FAMILIES = ("is_", "time.", "semver.", "net.cidr_contains")
"""Families of builtins whose results are small or part of their operands."""
CONSTANT = frozenset(
    ["abs", "ceil", "count", "div", "floor", "mul", "plus", "print", "rem", "round", "to_number", "trace", "type_name"]
)
"""Builtins that do not read their operands whole, beside those of the family `is_`."""


class ConflictError(Exception):
    """Rule with two values, which ends the query. `str()` is OPA's message."""

    def __init__(self, line: int, message: str, file: str) -> None:
        """Format the message with the rule's position."""
        super().__init__(f"{file}:{line}: eval_conflict_error: {message}")


class TooManyStepsError(Exception):
    """Query that exceeds its step budget."""


class Context:
    """Query: the input, the inventory, the values of rules and the remaining steps.

    `reads` holds the numbers of the paths at which the input was read.
    """

    __slots__ = ("input", "inventory", "left", "lines", "memo", "reads", "sizes", "unknown")

    def __init__(self, input_: Value, inventory: Value, size: int, left: list[int]) -> None:
        """`size` is the number of rules, `left` a list with the remaining steps."""
        self.input = input_
        self.inventory = inventory
        self.memo: list[Any] = [None] * size
        self.left = left
        self.reads: set[int] = set()
        self.unknown: list[str] = []
        self.lines: dict[str | bytes, int] = {}
        self.sizes: dict[int, tuple[Value, int]] = {}
        """Collections of collections that the policy made, with the number of their parts at all depths, by identity."""

    def spend(self, count: int) -> None:
        """Spend steps. Raises TooManyStepsError."""
        self.left[0] -= count
        if self.left[0] < 0:
            raise TooManyStepsError(f"the policy needs more than {STEPS} steps")

    def charge_new(self, value: Value) -> None:
        """Spend steps for the memory of a new value."""
        kind = type(value)
        if kind is str:
            if len(value) > _SHORT:
                self.spend(len(value) // _SHORT)
        elif kind in _PARTS:
            parts = _PARTS[kind](value)
            self.spend(len(parts) if kind is list else _ENTRY * len(parts))
            self.charge_members(value)
        elif kind is int and value > _LARGE:
            self.spend(value.bit_length() // _SHORT)

    def charge_members(self, value: Value) -> None:
        """Spend steps for the collections in a new collection, as if they were copied.

        They are shared, so without this a few steps would make a value with exponentially many parts.
        """
        parts = _PARTS[type(value)](value)
        if _COLLECTIONS.isdisjoint(map(type, parts)):
            return
        inner = sum(self.size(part) for part in parts if type(part) in _PARTS)
        self.sizes[id(value)] = (value, len(parts) + inner)
        self.spend(inner)

    def size(self, value: Value) -> int:
        """Return the number of parts of a collection. Only collections that the policy made are counted at all depths."""
        known = self.sizes.get(id(value))
        return len(_PARTS[type(value)](value)) + 1 if known is None else known[1]

    def charge_operand(self, value: Value) -> None:
        """Spend steps for an operation that reads an operand whole."""
        kind = type(value)
        if kind is str:
            self.spend(len(value) // SCANNED)
        elif kind in _PARTS:
            self.spend(self.size(value) // _ENTRY)

    def add_entry(self, out: Set, value: Value, line: int) -> None:
        """Add a member of the entry rule, and record the line of its rule."""
        self.spend(_ENTRY)
        out.add(value)
        self.lines.setdefault(key_of(value), line)


def replaced(context: Context, root: str, path: Sequence[str], value: Value) -> Context:
    """Return the context with another input or inventory, or with a part of it replaced."""
    if root == "input":
        # The memo starts anew, because values of rules may depend on the replaced part.
        new = Context(_with_part(context.input, path, value), context.inventory, len(context.memo), context.left)
    else:
        new = Context(context.input, _with_part(context.inventory, path[1:], value), len(context.memo), context.left)
    new.unknown, new.reads, new.sizes = context.unknown, context.reads, context.sizes
    return new


def _with_part(whole: Value, path: Sequence[str], value: Value) -> Value:
    if not path:
        return value
    base = dict(whole) if type(whole) is dict else {}
    base[path[0]] = _with_part(base.get(path[0]), path[1:], value)
    return base


class Entries:
    """Object built key by key."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        """Start without keys."""
        self.found: dict[str | bytes, tuple[Value, Value]] = {}

    def put(self, key: Value, value: Value, line: int, file: str, message: str = "object keys must be unique") -> None:
        """Add a key. Raises ConflictError if it has another value already."""
        name = key_of(key)
        known = self.found.get(name)
        if known is None:
            self.found[name] = (key, value)
        elif not equal(known[1], value):
            raise ConflictError(line, message, file)

    def value(self) -> Value:
        """Return the object."""
        return object_of(self.found.values())


def joined(parts: Sequence[str]) -> str:
    """Return the text of a template string. Raises TooLargeError."""
    limited(sum(map(len, parts)))
    return "".join(parts)


def put_single(out: list[Value], value: Value, line: int, message: str, file: str) -> None:
    """Add the value of a rule that has only one. Raises ConflictError if it has another value already."""
    if not out:
        out.append(value)
    elif not equal(out[0], value):
        raise ConflictError(line, message, file)


def step(value: Value, key: Value) -> Value:
    """Return the value of a reference with one operand."""
    kind = type(value)
    if kind is dict or kind is PartialObject:
        if type(key) is str:
            try:
                return value[key]
            except KeyError:
                return UNDEFINED
        return _touched(key)
    if kind is list:
        if type(key) is Number and key.value.denominator == 1:
            key = int(key.value)
        return value[key] if type(key) is int and 0 <= key < len(value) else _touched(key)
    if kind is Set or kind is Object:
        try:
            return value[key]
        except KeyError:
            return UNDEFINED
    return _touched(value)


def _touched(value: Value) -> Value:
    if type(value) is UnknownValue:
        value.touched()
    return UNDEFINED


def values(context: Context, value: Value) -> Iterable[Value]:
    """Return the elements of a collection."""
    kind = type(value)
    if kind is list:
        context.spend(len(value))
        return value  # type: ignore[no-any-return]
    if kind is dict:
        context.spend(len(value))
        # OPA iterates over objects by key.
        return [value[key] for key in sorted(value)] if len(value) > 1 else list(value.values())
    if kind is Set:
        context.spend(value.size)
        return members_of(value)
    return [item for _, item in entries(context, value)]


def entries(context: Context, value: Value) -> Iterable[tuple[Value, Value]]:
    """Return the keys and elements of a collection. A set's member is its own key."""
    kind = type(value)
    if kind is list:
        context.spend(len(value))
        return enumerate(value)
    if kind is dict:
        context.spend(len(value))
        return [(key, value[key]) for key in sorted(value)]
    if kind is Set:
        context.spend(value.size)
        return [(member, member) for member in members_of(value)]
    if kind is Object:
        context.spend(len(value.entries))
        return pairs_of(value)
    if kind is UnknownValue or kind is PartialObject:
        value.touched()
    return ()


lookups = entries


def array(value: Value, size: int) -> list[Value] | None:
    """Return an array of this size, or None for anything else."""
    if type(value) is UnknownValue:
        value.touched()
    return value if type(value) is list and len(value) == size else None


def fields_of(value: Value, keys: tuple[Value, ...]) -> list[Value] | None:
    """Return the values of an object with exactly these keys, or None for anything else."""
    if type(value) in (UnknownValue, PartialObject):
        value.touched()
    if type(value) is dict and len(value) == len(keys):
        found = [step(value, key) for key in keys]
        return None if any(item is UNDEFINED for item in found) else found
    if type(value) is Object and len(value.entries) == len(keys):
        found = [step(value, key) for key in keys]
        return None if any(item is UNDEFINED for item in found) else found
    return None


def same(context: Context, a: Value, b: Value) -> bool:
    """Return whether two values are equal, and spend steps for collections."""
    kind = type(a)
    if kind is str:
        return bool(a == b)
    if kind in _PARTS:
        context.charge_operand(a)
    return equal(a, b)


def order(context: Context, a: Value, b: Value) -> int:
    """Return -1, 0 or 1 for the order of two values, and spend steps for collections."""
    if type(a) in _PARTS:
        context.charge_operand(a)
    return compare(a, b)


def is_member(context: Context, value: Value, collection: Value) -> bool:
    """Return whether `value in collection` holds (`topdown/sets.go`, `builtinMember`)."""
    kind = type(collection)
    if type(value) in _PARTS:
        context.charge_operand(value)
        context.charge_operand(collection)
    if isinstance(collection, Set):
        return collection.has(value)
    if kind is list and type(value) is str:
        context.spend(len(collection) >> 3)
        return value in collection
    return any(equal(item, value) for item in values(context, collection))


def has_entry(key: Value, value: Value, collection: Value) -> bool:
    """Return whether `key, value in collection` holds."""
    found = step(collection, key)
    return found is not UNDEFINED and equal(found, value)


NAMESPACE = {
    "ONCE": ONCE,
    "U": UNDEFINED,
    "Unknown": UnknownValue,
    "Set": Set,
    "Entries": Entries,
    "object_of": object_of,
    "replaced": replaced,
    "put_single": put_single,
    "step": step,
    "values": values,
    "entries": entries,
    "lookups": lookups,
    "array": array,
    "joined": joined,
    "fields_of": fields_of,
    "is_member": is_member,
    "has_entry": has_entry,
    "same": same,
    "order": order,
}
