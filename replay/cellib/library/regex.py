"""Regular expressions in CEL, in RE2 syntax and linear time.

`find` and `findAll` are functions of Kubernetes (apiserver `pkg/cel/library/regex.go`). `regex.replace`,
`regex.extract` and `regex.extractAll` are functions of cel-go (`ext/regex.go`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from replay.cel.declare.cost import AstNode, CallEstimate, Range, pattern_estimate
from replay.cel.declare.library import Function, Library, Overload, overloaded
from replay.cel.value.bounds import MAX_TEXT, UndeterminedError
from replay.cel.value.regexp import all_matches, compile_pattern, matchable
from replay.cel.value.types import INT, STRING, list_type, optional_type
from replay.cel.value.values import OPTIONAL_NONE, EvalError, OptionalValue
from replay.cellib.library.cost import pattern_cost
from replay.go.format import quote


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvalError as error:
        raise EvalError(f"Illegal regex: {error.message}") from None


def _find(text: str, pattern: str) -> str:
    match = _compiled(pattern).search(matchable(text))
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return at most `limit` matches, or all of them if it is negative."""
    matches = all_matches(text, _compiled(pattern))
    return list(matches if limit < 0 else islice(matches, limit))


def _estimate(target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    if target is None or not args:
        return None
    return CallEstimate(pattern_estimate(target.any_size, args[0].any_size), Range(0, target.any_size.most))


REGEX = Library(
    name="kubernetes.regex",
    functions=(
        overloaded(
            "find",
            ("string_find_string", (STRING, STRING), STRING, _find),
            member=True,
            cost=pattern_cost,
            estimate=_estimate,
        ),
        overloaded(
            "findAll",
            ("string_find_all_string", (STRING, STRING), list_type(STRING), _find_all),
            ("string_find_all_string_int", (STRING, STRING, INT), list_type(STRING), _find_all),
            member=True,
            cost=pattern_cost,
            estimate=_estimate,
        ),
    ),
)
"""`find` and `findAll`."""


def _matches(text: str, pattern: Any) -> Iterator[Any]:
    """Yield all matches in order. As in Go, an empty match directly after another does not count."""
    position, last_end = 0, -1
    # An empty match is possible at the very end too.
    while position <= len(text):
        match = pattern.search(text, position)
        if match is None:
            return
        start, end = match.span()
        if start != end or start != last_end:
            yield match
        last_end = end
        # After an empty match the search moves on, or it would find the same one again.
        position = end if end > start else end + 1


def _replace(text: str, pattern: str, replacement: str, limit: int = -1) -> str:
    """Replace at most `limit` matches, or all of them if it is negative."""
    if limit == 0:
        return text
    compiled = compile_pattern(pattern)
    text = matchable(text)
    parts: list[str] = []
    last = size = 0
    for count, match in enumerate(_matches(text, compiled)):
        if 0 <= limit <= count:
            break
        parts += [text[last : match.start()], _replacement(match, compiled.groups, replacement)]
        size += len(parts[-1])
        if size > MAX_TEXT:
            raise UndeterminedError("the resulting string is longer than replay builds")
        last = match.end()
    return "".join([*parts, text[last:]])


def _replacement(match: Any, groups: int, replacement: str) -> str:
    parts: list[str] = []
    characters = iter(replacement)
    for character in characters:
        if character != "\\":
            parts.append(character)
            continue
        following = next(characters, "")
        if following == "\\":
            parts.append(following)
        elif not following:
            raise EvalError(f"invalid replacement string: '{replacement}' \\ not allowed at end")
        elif following not in "0123456789":
            raise EvalError(f"invalid replacement string: '{replacement}' \\ must be followed by a digit or \\")
        elif int(following) > groups:
            raise EvalError(f"replacement string references group {following} but regex has only {groups} group(s)")
        else:
            parts.append(match[int(following)] or "")
    return "".join(parts)


def _one_group(pattern: str) -> Any:
    compiled = compile_pattern(pattern)
    if compiled.groups > 1:
        raise EvalError(f"regular expression has more than one capturing group: {quote(pattern)}")
    return compiled


def _extract(text: str, pattern: str) -> OptionalValue:
    compiled = _one_group(pattern)
    match = compiled.search(matchable(text))
    if match is None:
        return OPTIONAL_NONE
    if not compiled.groups:
        return OptionalValue(match[0])
    # A group that matched nothing counts as none, whether it took part or not.
    return OptionalValue(match[1]) if match[1] else OPTIONAL_NONE


def _extract_all(text: str, pattern: str) -> list[str]:
    compiled = _one_group(pattern)
    found = _matches(matchable(text), compiled)
    if not compiled.groups:
        return [match[0] for match in found]
    return [match[1] for match in found if match[1]]


def _overload(name: str, body: Any, *more: Any, result: Any) -> Overload:
    args = (STRING, STRING, *more)
    return Overload(
        f"regex_{name}_{'_'.join(each.name for each in args)}", args, result, implementation=body, cost=pattern_cost
    )


REGEX_EXTENSION = Library(
    name="cel.lib.ext.regex",
    functions=(
        Function("regex.extract", (_overload("extract", _extract, result=optional_type(STRING)),)),
        Function("regex.extractAll", (_overload("extractAll", _extract_all, result=list_type(STRING)),)),
        Function(
            "regex.replace",
            (
                _overload("replace", _replace, STRING, result=STRING),
                _overload("replace", _replace, STRING, INT, result=STRING),
            ),
        ),
    ),
)
"""`regex.replace`, `regex.extract` and `regex.extractAll`."""
