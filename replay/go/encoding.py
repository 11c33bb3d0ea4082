"""Base64, PEM and texts of JSON as Go decodes them (`encoding/base64.StdEncoding`, `encoding/pem`, `encoding/json`).

Base64 must have its padding. Line breaks in it are ignored.
"""

from __future__ import annotations

import base64
import re
import string
from typing import Final, NamedTuple

_DIGITS = frozenset((string.ascii_letters + string.digits + "+/").encode())
_BREAKS = b"\r\n"


class Base64Error(Exception):
    """Text that is not base64. `str()` is Go's message with the offset of the wrong byte."""

    def __init__(self, offset: int) -> None:
        """`offset` counts bytes of UTF-8."""
        super().__init__(f"illegal base64 data at input byte {offset}")


def decode_base64(text: str) -> bytes:
    """Return the bytes of a base64 text. Raises Base64Error."""
    data = text.encode("utf-8", errors="replace")
    _check(data)
    return base64.b64decode(data.translate(None, _BREAKS))


def _check(data: bytes) -> None:
    """Raise Base64Error unless there are groups of four digits. The last group can end in `=` or `==`."""
    at = in_group = 0
    while at < len(data):
        byte = data[at]
        at += 1
        if byte in _BREAKS:
            continue
        if byte in _DIGITS:
            in_group = (in_group + 1) % 4
            continue
        if byte != ord("=") or in_group < 2:
            raise Base64Error(at - 1)
        _check_padding(data, at, in_group)
        return
    if in_group:
        raise Base64Error(at - in_group)


def _check_padding(data: bytes, at: int, in_group: int) -> None:
    """Raise Base64Error unless the rest after the first `=`, which is before `at`, is valid padding."""
    if in_group == 2:
        at = _skip_breaks(data, at)
        if at == len(data):
            raise Base64Error(at)
        if data[at] != ord("="):
            raise Base64Error(at - 1)
        at += 1
    at = _skip_breaks(data, at)
    if at < len(data):
        raise Base64Error(at)


def _skip_breaks(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _BREAKS:
        at += 1
    return at


_START: Final = b"-----BEGIN "
_END: Final = b"-----END "
_DASHES: Final = b"-----"


class PEMBlock(NamedTuple):
    """PEM block: its type and its bytes."""

    type: str
    data: bytes


def decode_pem(data: bytes) -> PEMBlock | None:
    """Return the first valid block, or None (`pem.Decode`)."""
    at = 0
    while (end := data.find(b"\n" + _END, at)) >= 0 or data.startswith(_END, at):
        end = end + 1 if end >= 0 else at
        after = end + len(_END)
        begin = data.rfind(_START, at, end)
        if begin >= 0 and (begin == at or data[begin - 1 : begin] == b"\n"):
            block = _block(data, begin + len(_START), end, after)
            if block is not None:
                return block
        at = after
    return None


def _block(data: bytes, begin: int, end: int, after: int) -> PEMBlock | None:
    line, at = _line(data, begin)
    if not line.endswith(_DASHES):
        return None
    kind = line.removesuffix(_DASHES)
    has_headers = False
    while at < len(data):
        line, following = _line(data, at)
        if b":" not in line:
            break
        has_headers, at = True, following
    else:
        return None
    trailer, _ = _line(data, after)
    if (has_headers and end < at) or trailer != kind + _DASHES:
        return None
    body = data[at:end].translate(None, b" \t") if end > at else b""
    decoded = _decoded(body)
    return None if decoded is None else PEMBlock(kind.decode("utf-8", "replace"), decoded)


def _line(data: bytes, at: int) -> tuple[bytes, int]:
    """Return a line without trailing white space, and where the next line begins."""
    end = data.find(b"\n", at)
    stop, following = (len(data), len(data)) if end < 0 else (end, end + 1)
    if end > at and data[end - 1 : end] == b"\r":
        stop -= 1
    return data[at:stop].rstrip(b" \t"), following


def _decoded(body: bytes) -> bytes | None:
    try:
        return decode_base64(body.decode("latin-1"))
    except Base64Error:
        return None


_SURROGATE = re.compile(
    r"(\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|[\ud800-\udfff]"
)
"""Surrogate without its other half in JSON text. The group holds an escape that stays as it is."""


def without_surrogates(text: str) -> str:
    """Return JSON text with U+FFFD for lone surrogates and bytes that are not UTF-8, as `encoding/json` reads it."""
    return _SURROGATE.sub(lambda match: match[1] or "\ufffd", text)
