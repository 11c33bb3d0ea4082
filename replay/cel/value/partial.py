"""A map or list of which some parts are missing: what is known of it can be selected, the whole is unknown."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from replay.cel.value.values import UnknownParts, Value


class PartialValue(Struct, frozen=True, eq=False):
    """A container with unknown parts.

    `value` is the container itself, for keys that it does not have; `parts` has the unknowns and the containers above them
    by key or index; `unknown` names all that is missing below.

    INVARIANT: only selections see one; a step that would return it returns `unknown` instead.
    """

    value: Value
    parts: Mapping[Value, Value]
    unknown: UnknownParts
