"""Format strings of `string.format`: which clauses they have (cel-go `ext/formatting.go`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_LETTERS: Final = "sdfebxXo"
_DIGITS: Final = "0123456789"


class FormatError(ValueError):
    """A format string is malformed, or has more clauses than arguments; the argument is the server's text."""


def conversions(text: str, count: int) -> Iterator[str]:
    """The letters of the clauses in order, for `count` arguments; raises `FormatError` where the server finds an error."""
    data = text.encode("utf-8", "replace")
    position = used = 0
    while position < len(data):
        position += 1
        if data[position - 1 : position] != b"%":
            continue
        if data[position : position + 1] == b"%":
            position += 1
            continue
        if position >= len(data):
            raise FormatError("unexpected end of string")
        if used >= count:
            raise FormatError(f"index {used} out of range")
        position = _after_precision(data, position)
        letter = chr(data[position])
        if letter not in _LETTERS:
            raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
        yield letter
        position += 1
        used += 1


def _after_precision(data: bytes, position: int) -> int:
    """Skip `.digits`; something follows it."""
    if data[position : position + 1] != b".":
        return position
    start = position = position + 1
    while position < len(data) and chr(data[position]) in _DIGITS:
        position += 1
    prefix = "could not parse formatting clause: error while parsing precision: "
    if position >= len(data):
        raise FormatError(prefix + "could not find end of precision specifier")
    digits = data[start:position].decode()
    if not digits or int(digits[:20]) >= 2**63:
        reason = "value out of range" if digits else "invalid syntax"
        raise FormatError(
            f'{prefix}error while converting precision to integer: strconv.Atoi: parsing "{digits}": {reason}'
        )
    return position
