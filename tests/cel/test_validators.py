from __future__ import annotations

import pytest

from replay.cel.ast.source import Source
from replay.cel.ast.tree import Ast
from replay.cel.check.checker import check
from replay.cel.check.validators import (
    duration_literals,
    homogeneous_literals,
    regex_literals,
    string_format,
    timestamp_literals,
    validate,
)
from replay.cel.declare.declarations import STANDARD_LIBRARY
from replay.cel.declare.library import Function, Library, Overload, VariableDecl
from replay.cel.declare.macros import macro_table
from replay.cel.declare.scope import Declarations
from replay.cel.syntax.parser import parse
from replay.cel.value.types import DYN, STRING, list_type
from replay.cellib.library.optionals import OPTIONALS

FORMAT = Function("format", (Overload("string_format", (STRING, list_type(DYN)), STRING, member=True),))
LIBRARIES = (STANDARD_LIBRARY, OPTIONALS, Library("strings", functions=(FORMAT,)))
DECLARATIONS = Declarations(LIBRARIES, [VariableDecl("object", DYN)])
MACROS = macro_table([macro for library in LIBRARIES for macro in library.macros])
VALIDATORS = (homogeneous_literals, duration_literals, timestamp_literals, regex_literals, string_format)


def found(text: str) -> list[tuple[int, str]]:
    parsed = parse(Source(text), MACROS)
    assert isinstance(parsed, Ast)
    ast = check(parsed, DECLARATIONS)
    assert isinstance(ast, Ast), ast.to_display_string()
    return [(issue.offset, issue.message) for issue in validate(ast, VALIDATORS).entries]


@pytest.mark.parametrize(
    ("text", "issues"),
    [
        ("duration('1h') < duration('x')", [(26, "invalid duration argument")]),
        ("true || duration('x') == object", [(17, "invalid duration argument")]),
        ("timestamp('2020-01-01T00:00:00Z') < timestamp('2020-01-01')", [(46, "invalid timestamp argument")]),
        ("duration(object.x) == timestamp(null) - timestamp(0)", [(32, "invalid timestamp argument")]),
        ("object.x.matches('[') || 'a'.matches('b')", [(17, "invalid matches argument")]),
        ("matches('[', 'a')", [(8, "invalid matches argument")]),
        ("[1, 'a', true]", [(4, "expected type 'int' but found 'string'")]),
        (
            "[[1], []] == [[dyn(1)], [1]]",
            [
                (6, "expected type 'list(int)' but found 'list(dyn)'"),
                (24, "expected type 'list(dyn)' but found 'list(int)'"),
            ],
        ),
        (
            "{'a': 1, 2: 'b'}",
            [(9, "expected type 'string' but found 'int'"), (12, "expected type 'int' but found 'string'")],
        ),
        ("[?object.?x, 1]", [(13, "expected type 'dyn' but found 'int'")]),
        ("[?dyn(1)]", [(5, "expected type 'optional_type(dyn)' but found 'dyn'")]),
        ("'%s %d'.format(['a', 1]) + '%s'.format([[1, 'b']])", []),
        (
            "'%d'.format(['a'])",
            [(13, "error during formatting: decimal clause can only be used on integers, was given string")],
        ),
        (
            "'%s'.format([[1, object.?a]])",
            [
                (
                    23,
                    "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type",
                )
            ],
        ),
        ("'%s'.format([])", [(11, "index 0 out of range")]),
        ("'%'.format([1])", [(10, "unexpected end of string")]),
        (
            "'%.'.format([1])",
            [
                (
                    11,
                    "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
                )
            ],
        ),
        ("'%q'.format([1])", [(11, 'could not parse formatting clause: unrecognized formatting clause "q"')]),
        ("'%s'.format([1, 2])", [(11, "too many arguments supplied to string.format (expected 1, got 2)")]),
        ("'100%%'.format([])", []),
    ],
)
def test_validate(text: str, issues: list[tuple[int, str]]) -> None:
    assert found(text) == issues
