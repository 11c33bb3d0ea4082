"""Tokens of CEL: one regular expression for well-formed text, a second, careful pass for everything else.

The token rules are those of the grammar from which cel-go is generated (`parser/gen/CEL.g4`): the longest match wins,
then the earlier rule. The token numbers are those of the grammar too, because messages print sets of expected tokens in
that order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from replay.cel.release import NEWEST_RELEASE, Release

EOF: Final = -1
EQUALS: Final = 1
NOT_EQUALS: Final = 2
IN: Final = 3
LESS: Final = 4
LESS_EQUALS: Final = 5
GREATER_EQUALS: Final = 6
GREATER: Final = 7
LOGICAL_AND: Final = 8
LOGICAL_OR: Final = 9
LBRACKET: Final = 10
RBRACKET: Final = 11
LBRACE: Final = 12
RBRACE: Final = 13
LPAREN: Final = 14
RPAREN: Final = 15
DOT: Final = 16
COMMA: Final = 17
MINUS: Final = 18
EXCLAM: Final = 19
QUESTIONMARK: Final = 20
COLON: Final = 21
PLUS: Final = 22
STAR: Final = 23
SLASH: Final = 24
PERCENT: Final = 25
TRUE: Final = 26
FALSE: Final = 27
NULL: Final = 28
WHITESPACE: Final = 29
COMMENT: Final = 30
NUM_FLOAT: Final = 31
NUM_INT: Final = 32
NUM_UINT: Final = 33
STRING: Final = 34
BYTES: Final = 35
IDENTIFIER: Final = 36
ESC_IDENTIFIER: Final = 37

MAX_CODE_POINTS: Final = 100_000
"""The longest expression that is parsed (cel-go's default, which Kubernetes keeps)."""

RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("package", "namespace", "null", "return", "true", "var", "void", "while"),
    }
)
"""Names that cannot be variables or functions, although they may be fields."""

ESCAPED_NAMES: Final = Release.V0_29
"""The release since which fields may be named in backticks (the parser option is on since then)."""

LITERALS: Final = {
    "==": EQUALS,
    "!=": NOT_EQUALS,
    "in": IN,
    "<": LESS,
    "<=": LESS_EQUALS,
    ">=": GREATER_EQUALS,
    ">": GREATER,
    "&&": LOGICAL_AND,
    "||": LOGICAL_OR,
    "[": LBRACKET,
    "]": RBRACKET,
    "{": LBRACE,
    "}": RBRACE,
    "(": LPAREN,
    ")": RPAREN,
    ".": DOT,
    ",": COMMA,
    "-": MINUS,
    "!": EXCLAM,
    "?": QUESTIONMARK,
    ":": COLON,
    "+": PLUS,
    "*": STAR,
    "/": SLASH,
    "%": PERCENT,
    "true": TRUE,
    "false": FALSE,
    "null": NULL,
}
"""Tokens with only one spelling."""

NAMES: Final = {
    **{number: f"'{text}'" for text, number in LITERALS.items()},
    EOF: "<EOF>",
    NUM_FLOAT: "NUM_FLOAT",
    NUM_INT: "NUM_INT",
    NUM_UINT: "NUM_UINT",
    STRING: "STRING",
    BYTES: "BYTES",
    IDENTIFIER: "IDENTIFIER",
    ESC_IDENTIFIER: "ESC_IDENTIFIER",
}
"""The names of the tokens in messages about what a parser expects."""

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_STRING = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
    r'|[rR](?:"""[\s\S]*?"""'
    r"|'''[\s\S]*?'''"
    r'|"[^"\n\r]*"'
    r"|'[^'\n\r]*')"
)
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})"
    rf"|(?P<bytes>[bB](?:{_STRING}))"
    r"|(?P<identifier>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<comment>//[^\n]*)"
    r"|(?P<operator>[=!<>]=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
    r"|(?P<escaped>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<space>[\t \r\n\f]+)"
    r"|(?P<error>[\s\S])"
)
_GROUPS = _TOKEN.groupindex
_KIND_OF_GROUP: Final = {
    _GROUPS["string"]: STRING,
    _GROUPS["bytes"]: BYTES,
    _GROUPS["float"]: NUM_FLOAT,
    _GROUPS["uint"]: NUM_UINT,
    _GROUPS["int"]: NUM_INT,
    _GROUPS["comment"]: COMMENT,
    _GROUPS["escaped"]: ESC_IDENTIFIER,
    _GROUPS["space"]: WHITESPACE,
}
_IDENTIFIER_GROUP: Final = _GROUPS["identifier"]
_OPERATOR_GROUP: Final = _GROUPS["operator"]
_SPACE_GROUP: Final = _GROUPS["space"]
_ERROR_GROUP: Final = _GROUPS["error"]


class Token(NamedTuple):
    """A token and its position. `ordinal` counts hidden tokens too, and is -1 for a token that recovery made up."""

    kind: int
    text: str
    start: int
    ordinal: int


class LexicalError(NamedTuple):
    """Text that is no token, from where a token should begin to the character that rules out the last rule."""

    start: int
    text: str


def scan(text: str) -> tuple[list[int], list[str], list[int]] | None:
    """Return kinds, texts and offsets of the visible tokens, ended by `EOF`, or None if some text is no token."""
    kinds: list[int] = []
    texts: list[str] = []
    starts: list[int] = []
    literals = LITERALS
    for match in _TOKEN.finditer(text):
        group = match.lastindex
        if group == _SPACE_GROUP:
            continue
        word = match[0]
        if group == _IDENTIFIER_GROUP:
            kind = literals.get(word, IDENTIFIER)
        elif group == _OPERATOR_GROUP:
            kind = literals[word]
        elif group == _ERROR_GROUP:
            return None
        else:
            kind = _KIND_OF_GROUP[group or 0]
            if kind == COMMENT:
                continue
        kinds.append(kind)
        texts.append(word)
        starts.append(match.start())
    kinds.append(EOF)
    texts.append("<EOF>")
    starts.append(len(text))
    return kinds, texts, starts


def tokens(text: str, release: Release = NEWEST_RELEASE) -> Iterator[Token | LexicalError]:
    """Yield all tokens, including hidden ones and errors, ended by `EOF`."""
    position = ordinal = 0
    has_escaped_names = release >= Release.V0_23
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not has_escaped_names and text[position] == "`":
            end = position + 1
            yield LexicalError(position, "`")
        elif match is None or match.lastindex == _ERROR_GROUP:
            end = _end_of_error(text, position)
            yield LexicalError(position, text[position:end])
        else:
            end = match.end()
            yield Token(_kind(match), match[0], position, ordinal)
            ordinal += 1
        position = end
    # ANTLR puts the end of an empty text before its beginning, which cel-go has kept since 0.22.
    yield Token(EOF, "<EOF>", len(text) or (-1 if release >= Release.V0_22 else 0), ordinal)


def _kind(match: re.Match[str]) -> int:
    if match.lastindex in (_IDENTIFIER_GROUP, _OPERATOR_GROUP):
        return LITERALS.get(match[0], IDENTIFIER)
    return _KIND_OF_GROUP[match.lastindex or 0]


_QUOTED_PREFIX: Final = {
    '"': re.compile(rf'"(?:{_ESCAPE}|[^\\"\n\r])*'),
    "'": re.compile(rf"'(?:{_ESCAPE}|[^\\'\n\r])*"),
    "`": re.compile(r"`[A-Za-z0-9_.\-/ ]*"),
}
_ESCAPE_PREFIX: Final = re.compile(r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?")


def _end_of_error(text: str, start: int) -> int:
    """Return where lexing continues: after the character at which no rule could match (`Lexer.Recover` of ANTLR)."""
    first = text[start]
    if first in _QUOTED_PREFIX:
        match = _QUOTED_PREFIX[first].match(text, start)
        position = match.end() if match else start + 1
        escape = _ESCAPE_PREFIX.match(text, position)
        return min((escape.end() if escape else position) + 1, len(text))
    return min(start + (2 if first in "=&|" else 1), len(text))
