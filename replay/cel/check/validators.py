"""The validators of cel-go, which refuse some checked expressions.

They refuse literals that cannot be parsed, literals of mixed types, and wrong format strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from replay.cel.ast.issues import Issues
from replay.cel.ast.tree import Ast, Call, Const, Expr, ListExpr, MapExpr
from replay.cel.ast.walk import children, descendants
from replay.cel.check.diagnostics import Diagnostics
from replay.cel.declare.unification import is_equivalent, unwrap_optional
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.value import conversion
from replay.cel.value.regexp import check_pattern
from replay.cel.value.types import Kind, Type, optional_type
from replay.cel.value.values import EvalError, Value

_LETTERS: Final = "sdfebxXo"
_DIGITS: Final = "0123456789"


class _FormatError(ValueError):
    """Format string that is malformed or has more clauses than arguments. `str()` is the server's text."""


def _conversions(text: str, count: int) -> Iterator[str]:
    """Yield the letters of the clauses in order, for `count` arguments.

    Raises `_FormatError` if the server finds an error.
    """
    data = text.encode("utf-8", "replace")
    position = used = 0
    while position < len(data):
        position += 1
        if data[position - 1 : position] != b"%":
            continue
        if data[position : position + 1] == b"%":
            position += 1
            continue
        if position >= len(data):
            raise _FormatError("unexpected end of string")
        if used >= count:
            raise _FormatError(f"index {used} out of range")
        position = _after_precision(data, position)
        letter = chr(data[position])
        if letter not in _LETTERS:
            raise _FormatError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
        yield letter
        position += 1
        used += 1


def _after_precision(data: bytes, position: int) -> int:
    """Skip `.digits`. Raises `_FormatError` unless something follows."""
    if data[position : position + 1] != b".":
        return position
    start = position = position + 1
    while position < len(data) and chr(data[position]) in _DIGITS:
        position += 1
    prefix = "could not parse formatting clause: error while parsing precision: "
    if position >= len(data):
        raise _FormatError(prefix + "could not find end of precision specifier")
    digits = data[start:position].decode()
    if not digits or int(digits[:20]) >= 2**63:
        reason = "value out of range" if digits else "invalid syntax"
        raise _FormatError(
            f'{prefix}error while converting precision to integer: strconv.Atoi: parsing "{digits}": {reason}'
        )
    return position


AstValidator = Callable[[Ast, Diagnostics], None]
"""Reports problems of a checked expression."""


def validate(ast: Ast, validators: Sequence[AstValidator], release: Release = NEWEST_RELEASE) -> Issues:
    """Return all findings of these validators, empty if there are none."""
    issues = Issues(ast.source)
    diagnostics = Diagnostics(issues, ast.positions, release)
    for validator in validators:
        validator(ast, diagnostics)
    return issues


def _literal_argument(function: str, parse: Callable[[Value], object]) -> AstValidator:
    """Return a validator for a function whose first argument must be parsable if it is a literal. Null never is."""

    def validator(ast: Ast, diagnostics: Diagnostics) -> None:
        for node in descendants(ast.expr):
            if not isinstance(node, Call) or node.function != function or not node.args:
                continue
            argument = node.args[0]
            if not isinstance(argument, Const):
                continue
            if not _succeeds(parse, argument.value):
                diagnostics.report(argument, f"invalid {function} argument")

    return validator


def _succeeds(parse: Callable[[Value], object], value: Value) -> bool:
    if value is None:
        return False
    try:
        parse(value)
    except EvalError:
        return False
    return True


duration_literals: Final = _literal_argument("duration", conversion.to_duration)
"""Literal durations must be valid."""

timestamp_literals: Final = _literal_argument("timestamp", conversion.to_timestamp)
"""Literal timestamps must be valid."""

regex_literals: Final = _literal_argument("matches", check_pattern)
"""Literal patterns must be valid in RE2. Of the global `matches(text, pattern)` it is the text that is checked."""


def homogeneous_literals(ast: Ast, diagnostics: Diagnostics) -> None:
    """Require one type for the elements of a list, and for the keys and the values of a map.

    Arguments of `format` are exempt.
    """
    exempt = _inside_format(ast.expr)
    # As in cel-go, the findings about all lists come before those about maps.
    nodes = [node for node in descendants(ast.expr) if node.id not in exempt]
    for node in nodes:
        if isinstance(node, ListExpr):
            _check_list(ast, node, diagnostics)
    for node in nodes:
        if isinstance(node, MapExpr):
            _check_map(ast, node, diagnostics)


def _inside_format(root: Expr) -> set[int]:
    exempt: set[int] = set()
    for node in descendants(root):
        if isinstance(node, Call) and node.function == "format":
            exempt.update(below.id for below in descendants(node) if below is not node)
    return exempt


def _check_list(ast: Ast, node: ListExpr, diagnostics: Diagnostics) -> None:
    """Report only the first element of another type."""
    first: Type | None = None
    for index, element in enumerate(node.elements):
        type_ = _element_type(ast, element, diagnostics, optional=index in node.optional_indices)
        if first is None:
            first = type_
        elif not is_equivalent(first, type_):
            diagnostics.type_mismatch(element, first, type_)
            break


def _check_map(ast: Ast, node: MapExpr, diagnostics: Diagnostics) -> None:
    first: tuple[Type, Type] | None = None
    for entry in node.entries:
        key = ast.type_map[entry.key.id]
        value = _element_type(ast, entry.value, diagnostics, optional=entry.optional)
        if first is None:
            first = key, value
            continue
        if not is_equivalent(first[0], key):
            diagnostics.type_mismatch(entry.key, first[0], key)
        if not is_equivalent(first[1], value):
            diagnostics.type_mismatch(entry.value, first[1], value)


def _element_type(ast: Ast, node: Expr, diagnostics: Diagnostics, *, optional: bool) -> Type:
    """Return the type of an element. The server crashes for a dynamic value marked with `?`. Here that is a finding."""
    type_ = ast.type_map[node.id]
    if not optional:
        return type_
    held, is_optional = unwrap_optional(type_)
    if not is_optional:
        diagnostics.type_mismatch(node, optional_type(held), held)
    return held


def string_format(ast: Ast, diagnostics: Diagnostics) -> None:
    """Require a literal format string to be well-formed and to fit a literal list of arguments."""
    for node in descendants(ast.expr):
        if isinstance(node, Call) and node.function == "format" and isinstance(node.target, Const):
            text, arguments = node.target.value, node.args
            if isinstance(text, str) and len(arguments) == 1 and isinstance(arguments[0], ListExpr):
                _check_format(ast, node, text, arguments[0].elements, diagnostics)


def string_format_or_crash(ast: Ast, diagnostics: Diagnostics) -> None:
    """Run `string_format` as of cel-go 0.20, which crashes on format strings that are not literals."""
    for node in descendants(ast.expr):
        if isinstance(node, Call) and node.function == "format" and not isinstance(node.target, Const):
            diagnostics.report(node, "runtime error: invalid memory address or nil pointer dereference")
            return
    string_format(ast, diagnostics)


def _check_format(ast: Ast, node: Call, text: str, arguments: Sequence[Expr], diagnostics: Diagnostics) -> None:
    used = 0
    try:
        for index, letter in enumerate(_conversions(text, len(arguments))):
            used = index + 1
            _check_clause(ast, letter, arguments[index])
    except _ClauseError as error:
        diagnostics.report(error.node, f"error during formatting: {error.message}")
        return
    except _FormatError as error:
        diagnostics.report(node, str(error))
        return
    if len(arguments) > used:
        diagnostics.report(
            node, f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
        )


class _ClauseError(Exception):
    """An argument has a type that its clause cannot format."""

    def __init__(self, node: Expr, message: str) -> None:
        super().__init__(message)
        self.node = node
        self.message = message


_NUMBERS = frozenset({Kind.INT, Kind.UINT})
_CLAUSES: Final = {
    "d": (_NUMBERS, "decimal clause can only be used on integers"),
    "f": (frozenset({Kind.DOUBLE, Kind.STRING}), "fixed-point clause can only be used on doubles"),
    "e": (frozenset({Kind.DOUBLE, Kind.STRING}), "scientific clause can only be used on doubles"),
    "b": (_NUMBERS | {Kind.BOOL}, "only integers and bools can be formatted as binary"),
    "x": (
        _NUMBERS | {Kind.STRING, Kind.BYTES},
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
    "o": (_NUMBERS, "octal clause can only be used on integers"),
    "s": (
        frozenset(
            {
                *(Kind.LIST, Kind.MAP, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.BOOL, Kind.STRING, Kind.TIMESTAMP),
                *(Kind.BYTES, Kind.DURATION, Kind.TYPE, Kind.NULL),
            }
        ),
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
    ),
}


def _check_clause(ast: Ast, letter: str, argument: Expr) -> None:
    kinds, message = _CLAUSES[letter.lower()]
    wrong = _unformattable(ast, argument, kinds, deep=letter == "s")
    if wrong is not None:
        raise _ClauseError(wrong, f"{message}, was given {ast.type_map[wrong.id].name}")


def _unformattable(ast: Ast, node: Expr, kinds: frozenset[Kind], *, deep: bool) -> Expr | None:
    """Return the node whose type is not allowed, or None. `dyn` is always allowed.

    Elements of literals are checked too if `deep`.
    """
    kind = ast.type_map[node.id].kind
    if kind is not Kind.DYN and kind not in kinds:
        return node
    if deep and isinstance(node, ListExpr | MapExpr):
        for below in children(node):
            wrong = _unformattable(ast, below, kinds, deep=True)
            if wrong is not None:
                return wrong
    return None
