"""CEL values as Python values.

Plain JSON is used as it was decoded, never wrapped:

| CEL | Python |
| --- | --- |
| null, bool, string, bytes | `None`, `bool`, `str` (code points), `bytes` |
| int | `int` (exactly that type; a bool is never an int; always within int64) |
| uint | `Uint`, a subclass of int |
| double | `float` |
| list, map | `list` (or tuple), `dict` |
| timestamp, duration | `Timestamp`, `Duration` |
| type | `TypeValue` |
| optional | `OptionalValue` |
| opaque types (quantity, ip, ...) and objects | subclasses of `OpaqueValue`, `ObjectValue` |
| unknown | `Unknown`, never inside a list or map |

An evaluation that fails raises `EvalError`; errors are values only where `&&`, `||` and folds absorb them.
"""

from __future__ import annotations

from typing import Any

from replay.cel.types import Type

Value = Any
"""Any of the representations in the table above."""


class Uint(int):
    """An unsigned 64-bit integer; the subclass keeps it apart from int, hashing as the same number does."""

    __slots__ = ()

    def __repr__(self) -> str:
        """As written in CEL."""
        return f"{int(self)}u"


class OpaqueValue:
    """The base of values of an abstract type: each says its type, its equality and what its members are elsewhere."""

    __slots__ = ()
    cel_type: Type

    def equal(self, other: Value) -> Value:
        """CEL `==` with any other value: True or False, or an `EvalError` raised (`no such overload`)."""
        raise NotImplementedError


class EvalError(Exception):
    """An evaluation failed; `message` is the text that the API server would report.

    Raised by implementations of functions and by the engines; `&&`, `||` and folds absorb it, `Program.eval` catches it.
    """

    def __init__(self, message: str) -> None:
        """Keep the text apart from `args`, so that it stays typed."""
        super().__init__(message)
        self.message = message
