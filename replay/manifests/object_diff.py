"""Difference between two objects of one kind and name, or an object that only one set has."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verb(StrEnum):
    """Kind of change of an object or field."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    MOVED = "moved"
    CHANGED = "changed"
    WIDENED = "widened"
    NARROWED = "narrowed"


class FieldDiff(Struct, frozen=True):
    """A field that differs. `old` and `new` are texts, empty if there is no value."""

    field: str
    verb: Verb
    old: str = ""
    new: str = ""


class ObjectDiff(Struct, frozen=True):
    """An object that differs. `new_name` is set if the object was renamed or moved."""

    kind: str
    name: str
    verb: Verb
    fields: tuple[FieldDiff, ...] = ()
    new_name: str = ""
