"""PEM blocks (`encoding/pem`)."""

from __future__ import annotations

from typing import Final, NamedTuple

from replay.go.base64 import Base64Error, decode_base64

_START: Final = b"-----BEGIN "
_END: Final = b"-----END "
_DASHES: Final = b"-----"


class PEMBlock(NamedTuple):
    """A block: the word in its first line, and its bytes."""

    type: str
    data: bytes


def decode_pem(data: bytes) -> PEMBlock | None:
    """The first block that can be read, None if there is none (`pem.Decode`)."""
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
    """A line without what is white at its end, and where the next one begins."""
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
