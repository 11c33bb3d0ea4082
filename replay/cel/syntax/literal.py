"""Literals and their values (`parser/unescape.go` of cel-go, `strconv` of Go for numbers)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from replay.cel.release import Release
from replay.cel.syntax import lexer
from replay.cel.value.values import Uint, Value
from replay.go.format import parse_int, parse_uint

LiteralReader = Callable[[str], Value]
"""Function that returns the value of a literal's text. Raises `LiteralError`."""

_MAX_CODE_POINT = 0x10FFFF
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]))")
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}


class LiteralError(ValueError):
    """A literal without a value. The argument is the server's error text."""


def string_from_literal(text: str) -> str:
    """Return the value of a quoted string token. Raises `LiteralError`."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_unescaped_character, body)


def string_with_surrogates(text: str) -> str:
    """Return `string_from_literal` as of cel-go up to 0.22: the escape of a surrogate is the replacement character."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_unescaped_or_replaced, body)


def bytes_from_literal(text: str) -> bytes:
    r"""Return the value of a bytes token (`b"..."`).

    Hex and octal escapes are bytes. `\u` raises `LiteralError`.
    """
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return _utf8(body)
    out = bytearray()
    position = 0
    for match in _ESCAPE.finditer(body):
        out += _utf8(body[position : match.start()])
        out += _unescaped_bytes(match)
        position = match.end()
    return bytes(out + _utf8(body[position:]))


def int_from_literal(text: str) -> int:
    """Return the value of an int token with its sign. Raises `LiteralError` outside int64."""
    value = int(text, 16) if text.removeprefix("-").startswith("0x") else parse_int(text)
    if value is None or not -(2**63) <= value < 2**63:
        raise LiteralError("invalid int literal")
    return value


def uint_from_literal(text: str) -> Uint:
    """Return the value of a uint token with its suffix. Raises `LiteralError` outside uint64."""
    digits = text[:-1]
    value = int(digits, 16) if digits.startswith("0x") else parse_uint(digits)
    if value is None or value >= 2**64:
        raise LiteralError("invalid uint literal")
    return Uint(value)


def double_from_literal(text: str) -> float:
    """Return the value of a double token with its sign. Raises `LiteralError` if it overflows."""
    value = float(text)
    if math.isinf(value):
        raise LiteralError("invalid double literal")
    return value


def _body(text: str) -> tuple[str, bool]:
    """Return the text between the quotes, with line feed as the only line end, and whether it is raw."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    if len(text) >= 6 and text[:3] in ('"""', "'''"):
        return text[3:-3], raw
    return text[1:-1], raw


def _unescaped_character(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3]
    if digits is None and match[4] is None:
        return _SIMPLE[match[5]]
    code = int(match[4], 8) if digits is None else int(digits, 16)
    if code > _MAX_CODE_POINT or 0xD800 <= code <= 0xDFFF:
        raise LiteralError("invalid unicode code point")
    return chr(code)


def _unescaped_or_replaced(match: re.Match[str]) -> str:
    digits = match[2] or match[3]
    if digits is not None and int(digits, 16) > _MAX_CODE_POINT:
        raise LiteralError("unable to unescape string")
    is_surrogate = digits is not None and 0xD800 <= int(digits, 16) <= 0xDFFF
    return "\N{REPLACEMENT CHARACTER}" if is_surrogate else _unescaped_character(match)


def _unescaped_bytes(match: re.Match[str]) -> bytes:
    if match[2] is not None or match[3] is not None:
        raise LiteralError("unable to unescape string")
    if match[1] is not None:
        return bytes([int(match[1], 16)])
    if match[4] is not None:
        return bytes([int(match[4], 8)])
    return _SIMPLE[match[5]].encode()


def _utf8(text: str) -> bytes:
    """Return UTF-8. A lone surrogate, which no valid input has, becomes a replacement character as in Go."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


_READERS: Final[Mapping[int, LiteralReader]] = {
    lexer.STRING: string_from_literal,
    lexer.NUM_INT: int_from_literal,
    lexer.TRUE: lambda _: True,
    lexer.FALSE: lambda _: False,
    lexer.NULL: lambda _: None,
    lexer.NUM_FLOAT: double_from_literal,
    lexer.NUM_UINT: uint_from_literal,
    lexer.BYTES: bytes_from_literal,
}
_READERS_UNTIL_0_22: Final[Mapping[int, LiteralReader]] = {**_READERS, lexer.STRING: string_with_surrogates}


def readers(release: Release) -> Mapping[int, LiteralReader]:
    """Return the functions that read the tokens of literals, by token kind."""
    return _READERS if release >= Release.V0_23 else _READERS_UNTIL_0_22
