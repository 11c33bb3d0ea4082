"""Builtins for regular expressions and globs (`opa/v1/topdown/regex.go`, `glob.go`; `github.com/gobwas/glob`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import re2

from replay.gatekeeper.rego.builtins.operand import BuiltinError, builtin, plain, wrong
from replay.gatekeeper.rego.lexer import limited
from replay.gatekeeper.rego.value import UnknownTouchedError, Value
from replay.go.regexp import re2_pattern
from replay.go.regexp_tree import RegexpError, UnsupportedRegexpError

_COPIES = 64
"""Copies of a text of the largest size that one call may make."""
_QUIET = re2.Options()
_QUIET.log_errors = False


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    """Return a compiled pattern, or None if Go refuses it."""
    try:
        return re2.compile(re2_pattern(pattern), _QUIET)
    except UnsupportedRegexpError as error:
        raise UnknownTouchedError(f"replay does not evaluate the regular expression {pattern!r}: {error}") from None
    except (RegexpError, re2.error):
        return None


def regexp(pattern: str) -> Any:
    """Return a compiled pattern. Raises BuiltinError if Go refuses it."""
    found = _compiled(pattern)
    if found is None:
        raise BuiltinError
    return found


@plain("regex.match", 2)
def _match(pattern: Value, text: Value) -> Value:
    if type(pattern) is not str or type(text) is not str:
        return wrong(pattern, text)
    found = _compiled(pattern)
    return wrong() if found is None else found.search(text) is not None


@builtin("re_match", "ss")
def _re_match(pattern: str, text: str) -> Value:
    return regexp(pattern).search(text) is not None


@plain("regex.is_valid", 1)
def _is_valid(pattern: Value) -> Value:
    if type(pattern) is not str:
        wrong(pattern)
        return False
    return _compiled(pattern) is not None


def _all_matches(pattern: str, text: str, most: int) -> Iterator[Any]:
    """Yield the matches that Go finds. An empty match directly after another match does not count."""
    found = regexp(pattern)
    at, last, count, copied = 0, -1, 0, 0
    while at <= len(text) and (most < 0 or count < most):
        copied += len(text)  # RE2 gets a copy of the text for every search
        limited(copied // _COPIES)
        match = found.search(text, at)
        if match is None:
            return
        if match.end() > match.start() or match.start() != last:
            count += 1
            yield match
        last = match.end()
        at = match.end() if match.end() > match.start() else match.end() + 1


@builtin("regex.find_n", "ssi")
def _find_n(pattern: str, text: str, most: int) -> Value:
    return [match[0] for match in _all_matches(pattern, text, most)]


@builtin("regex.find_all_string_submatch_n", "ssi")
def _find_all(pattern: str, text: str, most: int) -> Value:
    return [[match[0], *(group or "" for group in match.groups())] for match in _all_matches(pattern, text, most)]


@builtin("regex.split", "ss")
def _split(pattern: str, text: str) -> Value:
    if not text and pattern:
        regexp(pattern)
        return [""]
    parts: list[Value] = []
    begin = end = 0
    for match in _all_matches(pattern, text, -1):
        end = match.start()
        # As in Go's `Regexp.Split`, an empty match at the start splits nothing off.
        if match.end() != 0:
            parts.append(text[begin:end])
        begin = match.end()
    if end != len(text):
        parts.append(text[begin:])
    return parts


_TEMPLATE = re.compile(r"\$(?:\$|([A-Za-z0-9_]+)|\{([A-Za-z0-9_]+)\})", re.ASCII)


@builtin("regex.replace", "sss")
def _replace(text: str, pattern: str, template: str) -> Value:
    parts: list[str] = []
    at = size = 0

    for match in _all_matches(pattern, text, -1):
        parts.append(text[at : match.start()])
        parts.append(_expanded(template, match, pattern) if "$" in template else template)
        size += len(parts[-1]) + len(parts[-2])
        limited(size)
        at = match.end()
    return "".join(parts) + text[at:]


def _group_names(pattern: str) -> dict[str, int]:
    """Return the numbers of named groups."""
    names: dict[str, int] = {}
    number = 0
    for found in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?P?<([A-Za-z0-9_]+)>|(?!\?))", pattern, re.DOTALL):
        if found.group().startswith("("):
            number += 1
            if found.group(1):
                names.setdefault(found.group(1), number)
    return names


def _expanded(template: str, match: Any, pattern: str) -> str:
    """Return a template with `$1` and `${name}` replaced by groups (`Regexp.Expand`)."""

    def group(found: re.Match[str]) -> str:
        name = found.group(1) or found.group(2)
        if name is None:
            return "$"
        if name.isdecimal():
            return str(match[int(name)] or "") if int(name) <= len(match.groups()) else ""
        number = _group_names(pattern).get(name)
        return "" if number is None else str(match[number] or "")

    return _TEMPLATE.sub(group, template)


@builtin("glob.quote_meta", "s")
def _quote_meta(pattern: str) -> Value:
    return re.sub(r"([*?\\\[\]{}])", r"\\\1", pattern)


@plain("glob.match", 3)
def _glob_match(pattern: Value, delimiters: Value, text: Value) -> Value:
    if type(pattern) is not str or type(text) is not str:
        return wrong(pattern, text)
    if delimiters is None:
        separators = ""
    elif type(delimiters) is list:
        if any(type(item) is not str or len(item) != 1 for item in delimiters):
            return wrong(*delimiters)
        # No delimiters at all is null; an empty array stands for the default.
        separators = "".join(delimiters) or "."
    else:
        return wrong(delimiters)
    found = _glob(pattern, separators)
    return wrong() if found is None else found.fullmatch(text) is not None


class _GlobError(Exception):
    """Invalid glob."""


@lru_cache(maxsize=1024)
def _glob(pattern: str, separators: str) -> Any:
    try:
        text, at = _glob_part(pattern, 0, separators, is_inner=False)
        if at != len(pattern):
            return None
        return re2.compile("(?s)" + text, _QUIET)
    except (_GlobError, re2.error, RecursionError):
        return None


def _glob_part(pattern: str, at: int, separators: str, *, is_inner: bool) -> tuple[str, int]:
    """Return a glob as a regular expression, up to a comma or brace that ends it."""
    one = f"[^{re.escape(separators)}]" if separators else "."
    out = ""
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            if at + 1 >= len(pattern):
                raise _GlobError
            out += re2.escape(pattern[at + 1])
            at += 2
        elif character == "*":
            # `**` also matches delimiters.
            is_super = pattern[at + 1 : at + 2] == "*"
            out += ".*" if is_super else f"{one}*"
            at += 2 if is_super else 1
        elif character == "?":
            out += one
            at += 1
        elif character == "[":
            part, at = _glob_class(pattern, at)
            out += part
        elif character == "{":
            part, at = _glob_alternatives(pattern, at + 1, separators)
            out += part
        elif is_inner and character in ",}":
            return out, at
        else:
            out += re2.escape(character)
            at += 1
    return out, at  # a brace that nothing closes is closed by the end


def _glob_alternatives(pattern: str, at: int, separators: str) -> tuple[str, int]:
    parts = []
    while True:
        part, at = _glob_part(pattern, at, separators, is_inner=True)
        parts.append(part)
        at += 1
        if pattern[at - 1 : at] in ("}", ""):
            return f"(?:{'|'.join(parts)})", min(at, len(pattern))


def _glob_class(pattern: str, at: int) -> tuple[str, int]:
    end = pattern.find("]", at)
    inner = pattern[at + 1 : end] if end > 0 else ""
    negated = inner.startswith("!")
    inner = inner[1:] if negated else inner
    if not inner:
        raise _GlobError
    if len(inner) == 3 and inner[1] == "-":
        if inner[0] > inner[2]:
            raise _GlobError
        body = f"{_class_character(inner[0])}-{_class_character(inner[2])}"
    else:
        body = "".join(map(_class_character, inner.replace("\\", "")))
    return f"[{'^' if negated else ''}{body}]", end + 1


def _class_character(character: str) -> str:
    return "\\" + character if character in r"\]^-[" else character
