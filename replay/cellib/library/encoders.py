"""Base64 in CEL (cel-go `ext/encoders.go`)."""

from __future__ import annotations

import base64
import string

from replay.cel.declare.library import Function, Library, Overload
from replay.cel.value.types import BYTES, STRING
from replay.cel.value.values import EvalError
from replay.cellib.library.cost import argument_estimate, first_traversal
from replay.go.base64 import Base64Error, decode_base64

_DIGITS = frozenset((string.ascii_letters + string.digits + "+/").encode())
_BREAKS = b"\r\n"


def _decode(text: str) -> bytes:
    """With padding or without."""
    try:
        return decode_base64(text)
    except Base64Error:
        pass
    return _decode_unpadded(text.encode("utf-8", "replace"))


def _decode_unpadded(data: bytes) -> bytes:
    """Of a text without padding Go says where it is at fault (`RawStdEncoding`)."""
    at = next((index for index, byte in enumerate(data) if byte not in _DIGITS and byte not in _BREAKS), -1)
    digits = data.translate(None, _BREAKS)
    if at < 0 and len(digits) % 4 == 1:
        at = len(data) - 1
    if at >= 0:
        raise EvalError(f"illegal base64 data at input byte {at}")
    return base64.b64decode(digits + b"=" * (-len(digits) % 4))


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


ENCODERS = Library(
    name="cel.lib.ext.encoders",
    functions=(
        Function(
            "base64.decode",
            (
                Overload(
                    "base64_decode_string",
                    (STRING,),
                    BYTES,
                    implementation=_decode,
                    cost=first_traversal,
                    estimate=argument_estimate(),
                ),
            ),
        ),
        Function(
            "base64.encode",
            (
                Overload(
                    "base64_encode_bytes",
                    (BYTES,),
                    STRING,
                    implementation=_encode,
                    cost=first_traversal,
                    estimate=argument_estimate(),
                ),
            ),
        ),
    ),
)
"""`base64.decode` and `base64.encode`."""
