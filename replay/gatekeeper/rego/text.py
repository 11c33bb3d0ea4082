"""Text of a Rego value (`ast/term.go`, `String`)."""

from __future__ import annotations

from replay.gatekeeper.rego.value import Number, Object, PartialObject, Set, UnknownValue, Value, members_of, pairs_of
from replay.go.format import quote

LONGEST = 16 * 2**20
"""Limit for the length of a policy's texts. A longer text ends the evaluation."""


class TooLargeError(Exception):
    """Value of a policy that exceeds the size limit."""

    def __init__(self) -> None:
        """Format the message."""
        super().__init__(f"the policy builds a string of more than {LONGEST >> 20} MiB")


def limited(size: int) -> None:
    """Raise TooLargeError if a text has too many characters."""
    if size > LONGEST:
        raise TooLargeError


def printed(value: Value) -> str:
    """Return a value as Rego source. Strings are quoted."""
    parts: list[str] = []
    _print(value, parts, [LONGEST])
    return "".join(parts)


def _print(value: Value, parts: list[str], left: list[int]) -> None:
    match value:
        case str():
            parts.append(quote(value))
        case bool() | None:
            parts.append({True: "true", False: "false", None: "null"}[value])
        case int():
            parts.append(str(value))
        case Number():
            parts.append(value.text)
        case list():
            _print_all("[", value, "]", parts, left)
        case dict() | Object():
            parts.append("{")
            for place, (key, item) in enumerate(pairs_of(value)):
                parts.append(", " if place else "")
                _print(key, parts, left)
                parts.append(": ")
                _print(item, parts, left)
            parts.append("}")
        case Set():
            members = members_of(value)
            if members:
                _print_all("{", members, "}", parts, left)
            else:
                parts.append("set()")
        case UnknownValue() | PartialObject():
            value.touched()
    left[0] -= len(parts[-1]) if parts else 0
    if left[0] < 0:
        raise TooLargeError


def _print_all(opening: str, items: list[Value], closing: str, parts: list[str], left: list[int]) -> None:
    parts.append(opening)
    for place, item in enumerate(items):
        if place:
            parts.append(", ")
        _print(item, parts, left)
    parts.append(closing)
