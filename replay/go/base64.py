"""Base64 as Go decodes it (`encoding/base64.StdEncoding`): line breaks ignored, padding required."""

from __future__ import annotations

import base64
import string

_DIGITS = frozenset((string.ascii_letters + string.digits + "+/").encode())
_BREAKS = b"\r\n"


class Base64Error(Exception):
    """The text is no base64; `str()` is Go's wording with the offset of the byte at fault."""

    def __init__(self, offset: int) -> None:
        """`offset` counts bytes of UTF-8."""
        super().__init__(f"illegal base64 data at input byte {offset}")


def decode_base64(text: str) -> bytes:
    """The bytes of a base64 text.

    Raises Base64Error.
    """
    data = text.encode("utf-8", errors="replace")
    _check(data)
    return base64.b64decode(data.translate(None, _BREAKS))


def _check(data: bytes) -> None:
    """Groups of four digits; the last may end in `=` or `==`."""
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
    """What may follow the first `=`, which stands before `at`."""
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
