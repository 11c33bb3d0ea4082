"""Lexer and parser of JMESPath (kyverno/go-jmespath `lexer.go`, `parser.go`), with the library's error texts.

It is the library's operator-precedence parser: `nud` parses the start of an expression, `led` its continuation. It is
as lenient as the library: the comma between arguments of a function is optional.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, NamedTuple

from replay.go.format import quote
from replay.json import JSON, decode_json
from replay.kyverno.rules.go_value import with_floats
from replay.kyverno.rules.response import JMESPathError
from replay.manifests.read.json_reader import JSONSyntaxError, read_json

MOST_CHARACTERS = 100_000
MOST_NESTING = 150
"""Limits of ours, so that a policy's expression cannot exhaust the stack."""


class Kind(Enum):
    """Kinds of nodes. The values are their names in the library's errors."""

    EMPTY = "ASTEmpty"
    COMPARATOR = "ASTComparator"
    CURRENT = "ASTCurrentNode"
    EXPREF = "ASTExpRef"
    FUNCTION = "ASTFunctionExpression"
    FIELD = "ASTField"
    FILTER = "ASTFilterProjection"
    FLATTEN = "ASTFlatten"
    IDENTITY = "ASTIdentity"
    INDEX = "ASTIndex"
    INDEX_EXPRESSION = "ASTIndexExpression"
    PAIR = "ASTKeyValPair"
    LITERAL = "ASTLiteral"
    HASH = "ASTMultiSelectHash"
    LIST = "ASTMultiSelectList"
    OR = "ASTOrExpression"
    AND = "ASTAndExpression"
    NOT = "ASTNotExpression"
    PIPE = "ASTPipe"
    PROJECTION = "ASTProjection"
    SUBEXPRESSION = "ASTSubexpression"
    SLICE = "ASTSlice"
    VALUES = "ASTValueProjection"


class Node(NamedTuple):
    """Node of the syntax tree."""

    kind: Kind
    value: Any = None
    children: tuple[Node, ...] = ()


class Token(NamedTuple):
    """Token with its kind as the library names it, and its text or literal."""

    kind: str
    value: Any


_BINDING_POWERS = {
    "tPipe": 1,
    "tOr": 2,
    "tAnd": 3,
    "tEQ": 5,
    "tLT": 5,
    "tLTE": 5,
    "tGT": 5,
    "tGTE": 5,
    "tNE": 5,
    "tFlatten": 9,
    "tStar": 20,
    "tFilter": 21,
    "tDot": 40,
    "tNot": 45,
    "tLbrace": 50,
    "tLbracket": 55,
    "tLparen": 60,
}
_COMPARATORS = frozenset({"tEQ", "tNE", "tGT", "tGTE", "tLT", "tLTE"})
_BASIC = {
    ".": "tDot",
    "*": "tStar",
    ",": "tComma",
    ":": "tColon",
    "{": "tLbrace",
    "}": "tRbrace",
    "]": "tRbracket",
    "(": "tLparen",
    ")": "tRparen",
    "@": "tCurrent",
}
_PAIRS = {
    "||": "tOr",
    "|": "tPipe",
    "<=": "tLTE",
    "<": "tLT",
    ">=": "tGTE",
    ">": "tGT",
    "!=": "tNE",
    "!": "tNot",
    "==": "tEQ",
    "=": "tUnknown",
    "&&": "tAnd",
    "&": "tExpref",
    "[?": "tFilter",
    "[]": "tFlatten",
    "[": "tLbracket",
}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NUMBER = re.compile(r"[-0-9][0-9]*", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_UNTIL = {end: re.compile(rf"(?:[^\\{end}]|\\.)*", re.DOTALL) for end in '`"'}
_RAW = re.compile(r"(?:[^\\']|\\'|\\)*", re.DOTALL)
_IDENTITY = Node(Kind.IDENTITY)


def parse(expression: str) -> Node:
    """Parse an expression. Raises JMESPathError with the library's text."""
    if len(expression) > MOST_CHARACTERS:
        raise JMESPathError(f"SyntaxError: the expression has more than {MOST_CHARACTERS} characters")
    return _Parser(_tokens(expression)).parse()


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        character = text[at]
        if match := _IDENTIFIER.match(text, at):
            tokens.append(Token("tUnquotedIdentifier", match[0]))
            at = match.end()
        elif character in _BASIC:
            tokens.append(Token(_BASIC[character], character))
            at += 1
        elif match := _NUMBER.match(text, at):
            tokens.append(Token("tNumber", match[0]))
            at = match.end()
        elif character == '"':
            body, at = _delimited(text, at + 1, '"')
            tokens.append(Token("tQuotedIdentifier", parsed_json(f'"{body}"')))
        elif character == "'":
            body, at = _delimited(text, at + 1, "'")
            tokens.append(Token("tStringLiteral", body.replace("\\'", "'")))
        elif character == "`":
            body, at = _delimited(text, at + 1, "`")
            tokens.append(Token("tJSONLiteral", body.replace("\\`", "`")))
        elif character in "|<>!=&[":
            operator = text[at : at + 2] if text[at : at + 2] in _PAIRS else character
            tokens.append(Token(_PAIRS[operator], operator))
            at += len(operator)
        elif character in " \t\n\r":
            at += 1
        else:
            raise JMESPathError(f"SyntaxError: Unknown char: {_quoted_rune(character)}")
    return [*tokens, Token("tEOF", "")]


def _delimited(text: str, start: int, end: str) -> tuple[str, int]:
    match = (_RAW if end == "'" else _UNTIL[end]).match(text, start)
    if match is None or text[match.end() : match.end() + 1] != end:
        raise JMESPathError(f"SyntaxError: Unclosed delimiter: {end}")
    return match[0], match.end() + 1


def _quoted_rune(character: str) -> str:
    """Return a character as `strconv.QuoteRuneToASCII` writes it."""
    if ord(character) < 0x80:
        inner = quote(character)[1:-1]
        return "'" + {"'": "\\'", '\\"': '"'}.get(inner, inner) + "'"
    return f"'\\u{ord(character):04x}'" if ord(character) < 0x10000 else f"'\\U{ord(character):08x}'"


def parsed_json(text: str) -> JSON:
    """Return JSON text as `encoding/json` decodes it into `interface{}`. Raises JMESPathError."""
    try:
        read_json(text.encode("utf-8", "surrogatepass"))
    except JSONSyntaxError as error:
        raise JMESPathError(str(error)) from None
    return with_floats(decode_json(text))


class _Parser:
    """Parser of one expression's tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def parse(self) -> Node:
        parsed = self._expression(0)
        if self._current != "tEOF":
            raise _syntax(f"Unexpected token at the end of the expression: {self._current}")
        return parsed

    @property
    def _current(self) -> str:
        return self._look(0).kind

    def _look(self, ahead: int) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _match(self, kind: str) -> None:
        if self._current != kind:
            raise _syntax(f"Expected {kind}, received: {self._current}")
        self._at += 1

    def _expression(self, power: int) -> Node:
        self._depth += 1
        if self._depth > MOST_NESTING:
            raise _syntax(f"the expression is nested more than {MOST_NESTING} times")
        token = self._look(0)
        self._at += 1
        left = self._nud(token)
        chained = 0
        while power < _BINDING_POWERS.get(kind := self._current, 0):
            self._at += 1
            left = self._led(kind, left)
            chained += 1
            if chained > MOST_NESTING:
                raise _syntax(f"the expression is nested more than {MOST_NESTING} times")
        self._depth -= 1
        return left

    def _nud(self, token: Token) -> Node:
        """Parse the start of an expression: a literal, a name, a projection of the current value, a prefix operator."""
        match token.kind:
            case "tJSONLiteral":
                return Node(Kind.LITERAL, parsed_json(token.value))
            case "tStringLiteral":
                return Node(Kind.LITERAL, token.value)
            case "tUnquotedIdentifier":
                return Node(Kind.FIELD, token.value)
            case "tQuotedIdentifier":
                if self._current == "tLparen":
                    raise _syntax("Can't have quoted identifier as function Name.")
                return Node(Kind.FIELD, token.value)
            case "tStar":
                right = _IDENTITY if self._current == "tRbracket" else self._projected("tStar")
                return Node(Kind.VALUES, None, (_IDENTITY, right))
            case "tFilter":
                return self._filter(_IDENTITY)
            case "tLbrace":
                return self._hash()
            case "tFlatten":
                left = Node(Kind.FLATTEN, None, (_IDENTITY,))
                return Node(Kind.PROJECTION, None, (left, self._projected("tFlatten")))
            case "tLbracket":
                return self._bracket()
            case "tCurrent":
                return Node(Kind.CURRENT)
            case "tExpref":
                return Node(Kind.EXPREF, None, (self._expression(0),))
            case "tNot":
                return Node(Kind.NOT, None, (self._expression(_BINDING_POWERS["tNot"]),))
            case "tLparen":
                inner = self._expression(0)
                self._match("tRparen")
                return inner
            case "tEOF":
                raise _syntax("Incomplete expression")
        raise _syntax(f"Invalid token: {token.kind}")

    def _bracket(self) -> Node:
        """Parse after `[`: an index, a slice, a projection, or a list of expressions."""
        if self._current in ("tNumber", "tColon"):
            try:
                right = self._index()
            except JMESPathError:
                return Node(Kind.EMPTY)  # the library returns no error here
            return self._project_if_slice(_IDENTITY, right)
        if self._current == "tStar" and self._look(1).kind == "tRbracket":
            self._at += 2
            return Node(Kind.PROJECTION, None, (_IDENTITY, self._projected("tStar")))
        return self._list()

    def _led(self, kind: str, node: Node) -> Node:
        """Parse the continuation of an expression: a field, an operator, arguments, a projection."""
        match kind:
            case "tDot":
                if self._current != "tStar":
                    return Node(Kind.SUBEXPRESSION, None, (node, self._after_dot(_BINDING_POWERS["tDot"])))
                self._at += 1
                return Node(Kind.VALUES, None, (node, self._projected("tDot")))
            case "tPipe":
                return Node(Kind.PIPE, None, (node, self._expression(_BINDING_POWERS["tPipe"])))
            case "tOr":
                return Node(Kind.OR, None, (node, self._expression(_BINDING_POWERS["tOr"])))
            case "tAnd":
                return Node(Kind.AND, None, (node, self._expression(_BINDING_POWERS["tAnd"])))
            case "tLparen":
                return self._call(node)
            case "tFilter":
                return self._filter(node)
            case "tFlatten":
                left = Node(Kind.FLATTEN, None, (node,))
                return Node(Kind.PROJECTION, None, (left, self._projected("tFlatten")))
            case "tLbracket":
                if self._current in ("tNumber", "tColon"):
                    return self._project_if_slice(node, self._index())
                self._match("tStar")
                self._match("tRbracket")
                return Node(Kind.PROJECTION, None, (node, self._projected("tStar")))
        if kind in _COMPARATORS:
            return Node(Kind.COMPARATOR, kind, (node, self._expression(_BINDING_POWERS[kind])))
        raise _syntax(f"Unexpected token: {kind}")

    def _call(self, name: Node) -> Node:
        arguments: list[Node] = []
        while self._current != "tRparen":
            arguments.append(self._expression(0))
            if self._current == "tComma":
                self._at += 1
        self._match("tRparen")
        return Node(Kind.FUNCTION, name.value, tuple(arguments))

    def _index(self) -> Node:
        if self._current == "tColon" or self._look(1).kind == "tColon":
            return self._slice()
        index = _integer(self._look(0).value)
        self._at += 1
        self._match("tRbracket")
        return Node(Kind.INDEX, index)

    def _slice(self) -> Node:
        parts: list[int | None] = [None, None, None]
        index = 0
        while self._current != "tRbracket" and index < 3:
            if self._current == "tColon":
                index += 1
            elif self._current == "tNumber":
                parts[index] = _integer(self._look(0).value)
            else:
                raise _syntax(f"Expected tColon or tNumber, received: {self._current}")
            self._at += 1
        self._match("tRbracket")
        return Node(Kind.SLICE, tuple(parts))

    def _project_if_slice(self, left: Node, right: Node) -> Node:
        indexed = Node(Kind.INDEX_EXPRESSION, None, (left, right))
        if right.kind is not Kind.SLICE:
            return indexed
        return Node(Kind.PROJECTION, None, (indexed, self._projected("tStar")))

    def _filter(self, node: Node) -> Node:
        condition = self._expression(0)
        self._match("tRbracket")
        right = _IDENTITY if self._current == "tFlatten" else self._projected("tFilter")
        return Node(Kind.FILTER, None, (node, right, condition))

    def _list(self) -> Node:
        expressions = [self._expression(0)]
        while self._current != "tRbracket":
            self._match("tComma")
            expressions.append(self._expression(0))
        self._match("tRbracket")
        return Node(Kind.LIST, None, tuple(expressions))

    def _hash(self) -> Node:
        children: list[Node] = []
        while True:
            key = self._look(0)
            if key.kind not in ("tUnquotedIdentifier", "tQuotedIdentifier"):
                raise _syntax("Expected tQuotedIdentifier or tUnquotedIdentifier")
            self._at += 1
            self._match("tColon")
            children.append(Node(Kind.PAIR, key.value, (self._expression(0),)))
            if self._current == "tComma":
                self._at += 1
            elif self._current == "tRbrace":
                self._at += 1
                return Node(Kind.HASH, None, tuple(children))

    def _after_dot(self, power: int) -> Node:
        if self._current in ("tQuotedIdentifier", "tUnquotedIdentifier", "tStar"):
            return self._expression(power)
        if self._current == "tLbracket":
            self._at += 1
            return self._list()
        if self._current == "tLbrace":
            self._at += 1
            return self._hash()
        raise _syntax("Expected identifier, lbracket, or lbrace")

    def _projected(self, kind: str) -> Node:
        """Parse the expression that is applied to each item of a projection."""
        power, current = _BINDING_POWERS[kind], self._current
        if _BINDING_POWERS.get(current, 0) < 10:
            return _IDENTITY
        if current in ("tLbracket", "tFilter"):
            return self._expression(power)
        if current == "tDot":
            self._at += 1
            return self._after_dot(power)
        raise _syntax("Error")


def _syntax(message: str) -> JMESPathError:
    return JMESPathError(f"SyntaxError: {message}")


def _integer(text: str) -> int:
    """Return the result of `strconv.Atoi`. Raises JMESPathError with its message."""
    if not _INTEGER.fullmatch(text):
        raise JMESPathError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise JMESPathError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return int(text)
