"""The pieces that compiled code is put together from."""

from __future__ import annotations

from msgspec import Struct


class NotCompiledError(Exception):
    """This expression is for the strict engine alone; `str()` says why."""


class Code(Struct, frozen=True):
    """A Python expression: its text, the Python type it is known to have, and whether it is a mere name or literal.

    `kind` is `bool`, `int` (in range), `str`, `list`, `dict`, `object`, `optional` (a value or `ABSENT`) or `json`
    (anything).
    """

    text: str
    kind: str = "json"
    atom: bool = False
