"""`find` and `findAll` (apiserver `pkg/cel/library/regex.go`), in RE2 syntax and linear time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from replay.cel.declare.estimate import AstNode, CallEstimate, Range, pattern_estimate
from replay.cel.declare.library import Function, Library, Overload
from replay.cel.value.regexp import compile_pattern, found, matchable
from replay.cel.value.types import INT, STRING, list_type
from replay.cel.value.values import EvalError
from replay.cellib.library.cost import pattern_cost


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvalError as error:
        raise EvalError(f"Illegal regex: {error.message}") from None


def _find(text: str, pattern: str) -> str:
    match = _compiled(pattern).search(matchable(text))
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """At most `limit` matches, all of them if it is negative."""
    matches = found(text, _compiled(pattern))
    return list(matches if limit < 0 else islice(matches, limit))


def _estimate(target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    if target is None or not args:
        return None
    return CallEstimate(pattern_estimate(target.any_size, args[0].any_size), Range(0, target.any_size.most))


REGEX = Library(
    name="kubernetes.regex",
    functions=(
        Function(
            "find",
            (
                Overload(
                    "string_find_string",
                    (STRING, STRING),
                    STRING,
                    member=True,
                    implementation=_find,
                    cost=pattern_cost,
                    estimate=_estimate,
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
                    estimate=_estimate,
                ),
                Overload(
                    "string_find_all_string_int",
                    (STRING, STRING, INT),
                    list_type(STRING),
                    member=True,
                    implementation=_find_all,
                    cost=pattern_cost,
                    estimate=_estimate,
                ),
            ),
        ),
    ),
)
"""`find` and `findAll`."""
