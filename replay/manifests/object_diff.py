"""Difference between two objects of one kind and name, or a single object."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verb(StrEnum):
    """What happened to an object or field."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    MOVED = "moved"
    CHANGED = "changed"
    WIDENED = "widened"
    NARROWED = "narrowed"


class FieldDiff(Struct, frozen=True):
    """A field that differs; `old` and `new` are texts, empty where there is nothing."""

    field: str
    verb: Verb
    old: str = ""
    new: str = ""


class ObjectDiff(Struct, frozen=True):
    """An object that differs; `new_name` is set where it was only renamed."""

    kind: str
    name: str
    verb: Verb
    fields: tuple[FieldDiff, ...] = ()
    new_name: str = ""
