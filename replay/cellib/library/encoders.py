"""Base64 in CEL (cel-go `ext/encoders.go`)."""

from __future__ import annotations

import base64

from replay.cel.declare.library import Function, Library, Overload
from replay.cel.value.types import BYTES, STRING
from replay.cel.value.values import EvalError
from replay.cellib.library.cost import argument_estimate, first_traversal
from replay.go.base64 import Base64Error, decode_base64


def _decode(text: str) -> bytes:
    """With padding or without."""
    try:
        return decode_base64(text)
    except Base64Error:
        pass
    digits = text.rstrip("\r\n")
    try:
        # Go says where the text without padding is at fault.
        return decode_base64(digits + "=" * (-len(digits.replace("\r", "").replace("\n", "")) % 4))
    except Base64Error as error:
        raise EvalError(str(error)) from None


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
