"""Lexer of Rego (`opa/v1/ast/internal/scanner`)."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from replay.gatekeeper.rego.value import Number, Object, PartialObject, Set, UnknownValue, Value, members_of, pairs_of
from replay.go.encoding import without_surrogates
from replay.go.format import quote

# Text of a Rego value (`ast/term.go`, `String`).

LONGEST = 16 * 2**20
"""Limit for the length of a policy's texts. A longer text ends the evaluation."""


class TooLargeError(Exception):
    """Value of a policy that exceeds the size limit."""

    def __init__(self) -> None:
        """Format the message."""
        super().__init__(f"the policy handles a value of more than {LONGEST >> 20} MiB")


def limited(size: int) -> None:
    """Raise TooLargeError if a text has too many characters."""
    if size > LONGEST:
        raise TooLargeError


def printed(value: Value) -> str:
    """Return a value as Rego source. Strings are quoted."""
    parts: list[str] = []
    _print(value, parts, [LONGEST])
    return "".join(parts)


def _print(value: Value, parts: list[str], left: list[int]) -> None:
    match value:
        case str():
            parts.append(quote(value))
        case bool() | None:
            parts.append({True: "true", False: "false", None: "null"}[value])
        case int():
            parts.append(str(value))
        case Number():
            parts.append(value.text)
        case list():
            _print_all("[", value, "]", parts, left)
        case dict() | Object():
            parts.append("{")
            for place, (key, item) in enumerate(pairs_of(value)):
                parts.append(", " if place else "")
                _print(key, parts, left)
                parts.append(": ")
                _print(item, parts, left)
            parts.append("}")
        case Set():
            members = members_of(value)
            if members:
                _print_all("{", members, "}", parts, left)
            else:
                parts.append("set()")
        case UnknownValue() | PartialObject():
            value.touched()
    left[0] -= len(parts[-1]) if parts else 0
    if left[0] < 0:
        raise TooLargeError


def _print_all(opening: str, items: list[Value], closing: str, parts: list[str], left: list[int]) -> None:
    parts.append(opening)
    for place, item in enumerate(items):
        if place:
            parts.append(", ")
        _print(item, parts, left)
    parts.append(closing)


_MOST_ERRORS = 10


class RegoError(Exception):
    """Rego that OPA refuses. `str()` has OPA's form: file, line, code and message."""

    count = 1
    """Number of errors that it consists of."""

    def __init__(self, line: int, message: str, code: str = "rego_parse_error", file: str = "template") -> None:
        """Format the message with its position."""
        super().__init__(f"{file}:{line}: {code}: {message}")
        self.place = (file, line)


class UnsupportedRegoError(RegoError):
    """Rego that OPA accepts but that is not supported here."""

    def __init__(self, line: int, message: str, file: str = "template") -> None:
        """Name the unsupported feature and its position."""
        super().__init__(line, message, "unsupported", file)


class SeveralRegoError(RegoError):
    """Several errors in the order of their places. OPA reports ten at most."""

    def __init__(self, errors: list[RegoError]) -> None:
        """Join the messages."""
        shown = [str(error) for error in sorted(errors, key=lambda error: error.place)]
        if len(shown) >= _MOST_ERRORS:
            shown = [*shown[:_MOST_ERRORS], "rego_compile_error: error limit reached"]
        Exception.__init__(self, "\n".join(shown))
        self.count = len(shown)


class Token(NamedTuple):
    """Token: `kind` is `name`, `number`, `string`, `template`, `newline`, `end`, or the symbol itself."""

    kind: str
    text: str
    line: int
    column: int
    is_spaced: bool
    """Whether white space comes before it."""
    parts: tuple[object, ...] = ()


_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+)
    |(?P<newline>\n)
    |(?P<comment>\#[^\n]*)
    |(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<raw>`[^`]*`)
    |(?P<template>\$["`])
    |(?P<symbol>:=|==|!=|<=|>=|[\[\]{}()=<>+\-*/%&|,;:.])
    """,
    re.VERBOSE,
)
_OPERAND_ENDS = frozenset({"name", "number", "string", "]", "}", ")"})


def tokens(text: str, file: str = "template", line: int = 1) -> list[Token]:
    """Return the tokens of a text, with a token of kind `newline` at the end of each line. Raises RegoError.

    `line` is the number of the first line.
    """
    found: list[Token] = []
    at = start = 0
    is_spaced = False
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise RegoError(
                line, f"illegal token: {text[at]!r}" if text[at] != '"' else "non-terminated string", file=file
            )
        kind = match.lastgroup or ""
        value = match.group()
        if kind in ("space", "comment"):
            at, is_spaced = match.end(), True
            continue
        if kind == "number" and value.startswith("-") and _is_after_operand(found):
            kind, value = "symbol", "-"
        token = Token(kind if kind not in ("symbol", "raw") else value, value, line, at - start + 1, is_spaced)
        at += len(value)
        if kind == "newline":
            token = token._replace(kind="newline")
            line, start = line + 1, at
        elif kind == "string":
            token = token._replace(text=_unquoted(value, line, file))
        elif kind == "raw":
            token = token._replace(kind="string", text=value[1:-1])
            line += value.count("\n")
        elif kind == "template":
            parts, at = _template(text, at, value[1], line, file)
            token = token._replace(kind="template", parts=parts)
            line += text.count("\n", match.start(), at)
        found.append(token)
        is_spaced = kind == "newline"
    found.append(Token("newline", "", line, at - start + 1, is_spaced=True))
    found.append(Token("end", "", line, at - start + 1, is_spaced=True))
    return found


def _is_after_operand(found: list[Token]) -> bool:
    """Return whether a `-` at this point is an operator, because it follows an operand."""
    return (
        bool(found)
        and found[-1].kind in _OPERAND_ENDS
        and found[-1].text not in ("in", "if", "not", "contains", "else")
    )


def _unquoted(text: str, line: int, file: str) -> str:
    try:
        return str(json.loads(without_surrogates(text), strict=False))
    except ValueError:
        raise RegoError(line, "illegal string escape sequence", file=file) from None


def _template(text: str, at: int, quote: str, line: int, file: str) -> tuple[tuple[object, ...], int]:
    """Return the parts of a string with expressions, and where it ends.

    A part is a text, or the text and line of an expression. `line` is the line at `at`.
    """
    parts: list[object] = []
    plain: list[str] = []

    def flush() -> None:
        if plain:
            raw = "".join(plain)
            parts.append(_unquoted(f'"{raw}"', line, file) if quote == '"' else raw)
            plain.clear()

    while at < len(text):
        character = text[at]
        if character == quote:
            flush()
            return tuple(parts), at + 1
        if character == "\\" and at + 1 < len(text):
            plain.append(text[at + 1] if text[at + 1] in "{}" else text[at : at + 2])
            at += 2
        elif character == "{":
            flush()
            end = _closing(text, at, line, file)
            parts.append((text[at + 1 : end], line))
            line += text.count("\n", at, end)
            at = end + 1
        elif character == "\n" and quote == '"':
            break
        else:
            plain.append(character)
            line += character == "\n"
            at += 1
    raise RegoError(line, "non-terminated string", file=file)


def _closing(text: str, at: int, line: int, file: str) -> int:
    """Return the index of the brace that closes the one at `at`."""
    depth, start = 0, at
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            break
        value = match.group()
        depth += (value == "{") - (value == "}")
        if depth == 0:
            return at
        inner = line + text.count("\n", start, at)
        at = _template(text, match.end(), value[1], inner, file)[1] if value[0] == "$" else match.end()
    raise RegoError(line, "non-terminated string", file=file)
