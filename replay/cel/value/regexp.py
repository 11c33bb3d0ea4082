"""Regular expressions in RE2 syntax, in linear time, with the error texts of Go's `regexp` package."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

from replay.cel.value.values import EvalError, Value

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

_CODES = (
    ("missing ]", "missing closing ]"),
    ("missing )", "missing closing )"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("invalid named capture group", "invalid named capture"),
    ("trailing \\", "trailing backslash at end of expression"),
)
"""RE2's words and Go's for the same error; the others are spelled alike."""

_SINGLE_BYTE = re.compile(r"(?:[^\\]|\\[^C])*?(\\C)", re.DOTALL)
_HUGE_REPEAT = re.compile(r"\{[0-9]{9,}(?:,[0-9]*)?\}|\{[0-9]+,[0-9]{9,}\}")


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """A compiled pattern with `search`; raises `EvalError` with Go's text where the pattern is wrong."""
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise _go_error(_text(error)) from None
    _check_go_limits(pattern)
    return compiled


def _text(error: Exception) -> str:
    detail = error.args[0] if error.args else ""
    return detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)


def _go_error(detail: str) -> EvalError:
    code, _, fragment = detail.partition(": ")
    for known, wording in _CODES:
        if code == known:
            code = wording
            break
    return EvalError(f"error parsing regexp: {code}: `{fragment}`")


def _check_go_limits(pattern: str) -> None:
    """What RE2's C++ implementation accepts and Go's does not: single bytes, and counts too long to be numbers."""
    if _SINGLE_BYTE.match(pattern):
        raise EvalError("error parsing regexp: invalid escape sequence: `\\C`")
    huge = _HUGE_REPEAT.search(pattern)
    if huge and not pattern[: huge.start()].endswith("\\"):
        raise EvalError(f"error parsing regexp: invalid repeat count: `{huge[0]}`")


def matches(text: Value, pattern: Value) -> bool:
    """`matches(text, pattern)`: whether the pattern is found anywhere in the text."""
    if type(pattern) is not str or type(text) is not str:
        raise EvalError("no such overload")
    return compile_pattern(pattern).search(text) is not None
