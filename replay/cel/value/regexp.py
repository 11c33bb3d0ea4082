"""Regular expressions: Go's syntax and error texts, matched by RE2 in linear time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import re2

from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.values import EvalError, Value
from replay.go.regexp import re2_pattern
from replay.go.regexp_tree import RegexpError, UnsupportedRegexpError

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

_LARGE_OPTIONS = re2.Options()
_LARGE_OPTIONS.log_errors = False
_LARGE_OPTIONS.max_mem = 256 << 20
"""For patterns that Go compiles within its limits, but RE2 only with more memory than its default."""

_NO_UTF8: Final = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def check_pattern(pattern: str) -> None:
    """Raise `EvalError` with Go's text if a pattern is wrong."""
    try:
        _re2_pattern(pattern)
    except RegexpError as error:
        raise EvalError(str(error)) from None
    except UnsupportedRegexpError:
        pass  # a pattern all the same: only matching with it is out of reach


def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern with `search`.

    Raises `EvalError` with Go's text if the pattern is wrong, and `UndeterminedError` if RE2 does not support it.
    """
    try:
        return _compiled(pattern)
    except RegexpError as error:
        raise EvalError(str(error)) from None


@lru_cache(maxsize=4096)
def _re2_pattern(pattern: str) -> str:
    return re2_pattern(pattern)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    try:
        translated = _re2_pattern(pattern)
    except UnsupportedRegexpError as error:
        raise UndeterminedError(f"a pattern has {error}, which replay does not match") from None
    try:
        return re2.compile(translated, _OPTIONS)
    except re2.error:
        return _compiled_large(translated)


@lru_cache(maxsize=4)
def _compiled_large(translated: str) -> Any:
    try:
        return re2.compile(translated, _LARGE_OPTIONS)
    except re2.error as error:
        detail = error.args[0] if error.args else ""
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        raise UndeterminedError(f"replay cannot compile a pattern: {text}") from None


def matchable(text: str) -> str:
    """Return the text as Go's matcher reads it: bytes that are not UTF-8 (`surrogateescape`) are U+FFFD."""
    return text if text.isascii() or not _has_surrogates(text) else text.translate(_NO_UTF8)


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def matches(text: Value, pattern: Value) -> bool:
    """Return whether the pattern is found anywhere in the text: `matches(text, pattern)`."""
    if type(pattern) is not str or type(text) is not str:
        raise EvalError("no such overload")
    return compile_pattern(pattern).search(matchable(text)) is not None


def all_matches(text: str, pattern: Any) -> Iterator[str]:
    """Yield all matches of a compiled pattern in order.

    As in Go, an empty match directly after another match does not count.
    """
    data = matchable(text).encode("utf-8")  # once: RE2 would encode a text anew for each match
    position, last_end = 0, -1
    while position <= len(data):
        match = pattern.search(data, position)
        if match is None:
            return
        start, end = match.span()
        if start != end or start != last_end:
            yield data[start:end].decode("utf-8")
        last_end = end
        position = end if end > start else _next_rune(data, end)


def _next_rune(data: bytes, position: int) -> int:
    """Return the start of the next character."""
    position += 1
    while position < len(data) and data[position] & 0xC0 == 0x80:
        position += 1
    return position
