"""The types of the variables of a comprehension (`checkComprehension` of cel-go's `checker/checker.go`)."""

from __future__ import annotations

from typing import Final

from replay.cel.release import Release
from replay.cel.value.types import DYN, INT, UNSPECIFIED, Kind, Type

UNCHECKED: Final = frozenset({Kind.DYN, Kind.ERROR, Kind.TYPE_PARAM})
"""Ranges that may turn out to be anything."""


def loop_types(range_type: Type, *, two: bool, release: Release) -> tuple[Type, Type] | None:
    """The types of the first and, where there are `two`, of the second variable; None for what has no elements."""
    if range_type.kind is Kind.LIST:
        element = range_type.parameters[0]
        return (INT, element) if two else (element, element)
    if range_type.kind is Kind.MAP:
        key, value = range_type.parameters
        return key, value
    if range_type.kind in UNCHECKED:
        # cel-go 0.22, the first with a second variable, gives it no type here.
        return DYN, DYN if release >= Release.V0_23 else UNSPECIFIED
    return None
