"""Capabilities of types (cel-go `common/types/traits`): operators check these before they look at the operands."""

from __future__ import annotations

from replay.cel.value.text import type_name
from replay.cel.value.values import ObjectValue, OpaqueValue, Value

ADDER = "adder"
COMPARER = "comparer"
CONTAINER = "container"
DIVIDER = "divider"
FIELD_TESTER = "field tester"
INDEXER = "indexer"
ITERABLE = "iterable"
LISTER = "lister"
MATCHER = "matcher"
MODDER = "modder"
MULTIPLIER = "multiplier"
NEGATOR = "negator"
RECEIVER = "receiver"
SIZER = "sizer"
SUBTRACTOR = "subtractor"

_ARITHMETIC = {ADDER, COMPARER, DIVIDER, MULTIPLIER, SUBTRACTOR}
_COLLECTION = {CONTAINER, INDEXER, ITERABLE, SIZER}

_TRAITS: dict[str, frozenset[str]] = {
    name: frozenset(traits)
    for name, traits in {
        "bool": {COMPARER, NEGATOR},
        "bytes": {ADDER, COMPARER, SIZER},
        "double": {*_ARITHMETIC, NEGATOR},
        "google.protobuf.Duration": {ADDER, COMPARER, NEGATOR, RECEIVER, SUBTRACTOR},
        "int": {*_ARITHMETIC, MODDER, NEGATOR},
        "list": {*_COLLECTION, ADDER, LISTER},
        "map": _COLLECTION,
        "string": {ADDER, COMPARER, MATCHER, RECEIVER, SIZER},
        "google.protobuf.Timestamp": {ADDER, COMPARER, RECEIVER, SUBTRACTOR},
        "uint": {*_ARITHMETIC, MODDER},
    }.items()
}
_OBJECT = frozenset({FIELD_TESTER, INDEXER})
_NONE: frozenset[str] = frozenset()


def traits_of(value: Value) -> frozenset[str]:
    """Return the traits of a value's type. An opaque type may list its own in `traits`."""
    traits = _TRAITS.get(type_name(value))
    if traits is not None:
        return traits
    if isinstance(value, OpaqueValue):
        return frozenset(getattr(value, "traits", _NONE))
    return _OBJECT if isinstance(value, ObjectValue) else _NONE


def has_trait(value: Value, trait: str) -> bool:
    """Return whether a value's type has a trait."""
    return trait in traits_of(value)
