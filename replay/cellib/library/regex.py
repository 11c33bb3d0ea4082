"""`find` and `findAll` (apiserver `pkg/cel/library/regex.go`), in RE2 syntax and linear time."""

from __future__ import annotations

from typing import Any

from replay.cel.declare.library import Function, Library, Overload
from replay.cel.value.regexp import compile_pattern
from replay.cel.value.types import INT, STRING, list_type
from replay.cel.value.values import EvalError
from replay.cellib.library.cost import pattern_cost


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvalError as error:
        raise EvalError(f"Illegal regex: {error.message}") from None


def _find(text: str, pattern: str) -> str:
    match = _compiled(pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """At most `limit` matches, all of them if it is negative.

    As in Go's `FindAllString`, an empty match right after another match does not count.
    """
    compiled = _compiled(pattern)
    found: list[str] = []
    position, last_end = 0, -1
    while len(found) != limit and position <= len(text):
        match = compiled.search(text, position)
        if match is None:
            break
        start, end = match.span()
        if start != end or start != last_end:
            found.append(match[0])
        last_end = end
        position = end if end > start else end + 1
    return found


REGEX = Library(
    name="kubernetes.regex",
    functions=(
        Function(
            "find",
            (
                Overload(
                    "string_find_string", (STRING, STRING), STRING, member=True, implementation=_find, cost=pattern_cost
                ),
            ),
        ),
        Function(
            "findAll",
            (
                Overload(
                    "string_find_all_string",
                    (STRING, STRING),
                    list_type(STRING),
                    member=True,
                    implementation=_find_all,
                    cost=pattern_cost,
                ),
                Overload(
                    "string_find_all_string_int",
                    (STRING, STRING, INT),
                    list_type(STRING),
                    member=True,
                    implementation=_find_all,
                    cost=pattern_cost,
                ),
            ),
        ),
    ),
)
"""`find` and `findAll`."""
