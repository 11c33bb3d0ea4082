"""The grammar of CEL as data, for the parser that recovers from errors.

It is the grammar of the specification in the form from which cel-go's parser is generated (`parser/gen/CEL.g4`): which
rules there are, which alternatives are told apart by one token and which need more (`adaptive`), and how the parts are
labelled. The form matters, because the server's messages follow from it.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from replay.cel.syntax import lexer


@dataclass(slots=True, eq=False)
class Element:
    """A part of a rule. `state` is the automaton's state before it."""

    state: int = field(default=-1, init=False)


@dataclass(slots=True, eq=False)
class TokenMatch(Element):
    """One token of these kinds, stored under a label."""

    kinds: frozenset[int]
    label: str = ""


@dataclass(slots=True, eq=False)
class Invoke(Element):
    """Another rule, stored under a label. A left-recursive rule has a least binding strength."""

    rule: str
    label: str = ""
    precedence: int = 0


@dataclass(slots=True, eq=False)
class OptionalBody(Element):
    """The body or nothing, decided by one token."""

    body: tuple[Element, ...]


@dataclass(slots=True, eq=False)
class Star(Element):
    """The body any number of times."""

    body: tuple[Element, ...]
    adaptive: bool = False
    loop_state: int = field(default=-1, init=False)


@dataclass(slots=True, eq=False)
class Plus(Element):
    """The body at least once."""

    body: tuple[Element, ...]
    adaptive: bool = False
    loop_state: int = field(default=-1, init=False)


@dataclass(slots=True, eq=False)
class Alternative:
    """One alternative, with the name of its tree."""

    name: str
    body: tuple[Element, ...]
    precedence: int = 0


@dataclass(slots=True, eq=False)
class Choice(Element):
    """Exactly one of the alternatives."""

    alternatives: tuple[Alternative, ...]
    adaptive: bool = True


@dataclass(slots=True, eq=False)
class GrammarRule:
    """A rule: a sequence, or with `operators` a left-recursive rule that begins with the sequence.

    Operators are repeated after the sequence, and bind as strongly as their precedence. The states are those before the
    rule, before the repetition, before the choice of an operator and after an operator.
    """

    name: str
    body: tuple[Element, ...]
    operators: tuple[Alternative, ...] = ()
    primary: str = ""
    start_state: int = field(default=-1, init=False)
    entry_state: int = field(default=-1, init=False)
    choice_state: int = field(default=-1, init=False)
    loop_state: int = field(default=-1, init=False)


def _match(kind: int, label: str = "") -> TokenMatch:
    return TokenMatch(frozenset({kind}), label)


def _operator(label: str, precedence: int, kinds: frozenset[int], operand: str) -> Alternative:
    """Return `rule op rule`, grouping to the left."""
    return Alternative(label, (TokenMatch(kinds, "op"), Invoke(operand, "", precedence + 1)), precedence)


def _optional_mark() -> OptionalBody:
    return OptionalBody((_match(lexer.QUESTIONMARK, "opt"),))


def _leading_dot() -> OptionalBody:
    return OptionalBody((_match(lexer.DOT, "leading_dot"),))


def _trailing_comma() -> OptionalBody:
    return OptionalBody((_match(lexer.COMMA),))


def _arguments() -> OptionalBody:
    return OptionalBody((Invoke("exprList", "args"),))


_RELATIONS = frozenset(
    {
        *(lexer.EQUALS, lexer.NOT_EQUALS, lexer.IN, lexer.LESS),
        *(lexer.LESS_EQUALS, lexer.GREATER_EQUALS, lexer.GREATER),
    }
)
_FACTORS = frozenset({lexer.STAR, lexer.SLASH, lexer.PERCENT})
_TERMS = frozenset({lexer.PLUS, lexer.MINUS})

_SELECT = Alternative("Select", (_match(lexer.DOT, "op"), _optional_mark(), Invoke("escapeIdent", "id")), 3)
_NAME_SELECT = Alternative(
    "Select", (_match(lexer.DOT, "op"), _optional_mark(), _match(lexer.IDENTIFIER, "id")), _SELECT.precedence
)
_MEMBER_CALL = Alternative(
    "MemberCall",
    (
        _match(lexer.DOT, "op"),
        _match(lexer.IDENTIFIER, "id"),
        _match(lexer.LPAREN, "open"),
        _arguments(),
        _match(lexer.RPAREN),
    ),
    2,
)
_INDEX = Alternative(
    "Index",
    (_match(lexer.LBRACKET, "op"), _optional_mark(), Invoke("expr", "index"), _match(lexer.RBRACKET)),
    1,
)

_PRIMARY = Choice(
    (
        Alternative("Ident", (_leading_dot(), _match(lexer.IDENTIFIER, "id"))),
        Alternative(
            "GlobalCall",
            (
                _leading_dot(),
                _match(lexer.IDENTIFIER, "id"),
                _match(lexer.LPAREN, "op"),
                _arguments(),
                _match(lexer.RPAREN),
            ),
        ),
        Alternative("Nested", (_match(lexer.LPAREN), Invoke("expr", "e"), _match(lexer.RPAREN))),
        Alternative(
            "CreateList",
            (
                _match(lexer.LBRACKET, "op"),
                OptionalBody((Invoke("listInit", "elems"),)),
                _trailing_comma(),
                _match(lexer.RBRACKET),
            ),
        ),
        Alternative(
            "CreateStruct",
            (
                _match(lexer.LBRACE, "op"),
                OptionalBody((Invoke("mapInitializerList", "entries"),)),
                _trailing_comma(),
                _match(lexer.RBRACE),
            ),
        ),
        Alternative(
            "CreateMessage",
            (
                _leading_dot(),
                _match(lexer.IDENTIFIER, "ids"),
                Star((_match(lexer.DOT), _match(lexer.IDENTIFIER, "ids"))),
                _match(lexer.LBRACE, "op"),
                OptionalBody((Invoke("fieldInitializerList", "entries"),)),
                _trailing_comma(),
                _match(lexer.RBRACE),
            ),
        ),
        Alternative("ConstantLiteral", (Invoke("literal", "literal"),)),
    )
)

_IDENT_OR_CALL = Alternative(
    "IdentOrGlobalCall",
    (
        _leading_dot(),
        _match(lexer.IDENTIFIER, "id"),
        OptionalBody((_match(lexer.LPAREN, "op"), _arguments(), _match(lexer.RPAREN))),
    ),
)

_SIGN = "sign"
_LITERAL = Choice(
    (
        Alternative("Int", (OptionalBody((_match(lexer.MINUS, _SIGN),)), _match(lexer.NUM_INT, "tok"))),
        Alternative("Uint", (_match(lexer.NUM_UINT, "tok"),)),
        Alternative("Double", (OptionalBody((_match(lexer.MINUS, _SIGN),)), _match(lexer.NUM_FLOAT, "tok"))),
        Alternative("String", (_match(lexer.STRING, "tok"),)),
        Alternative("Bytes", (_match(lexer.BYTES, "tok"),)),
        Alternative("BoolTrue", (_match(lexer.TRUE, "tok"),)),
        Alternative("BoolFalse", (_match(lexer.FALSE, "tok"),)),
        Alternative("Null", (_match(lexer.NULL, "tok"),)),
    )
)


def _separated(*body: Element, again: tuple[Element, ...], adaptive: bool) -> tuple[Element, ...]:
    return (*body, Star((_match(lexer.COMMA), *again), adaptive))


def _rules() -> tuple[GrammarRule, ...]:
    return (
        GrammarRule("start", (Invoke("expr", "e"), _match(lexer.EOF))),
        GrammarRule("expr", (Invoke("conditionalOr", "e"), _TERNARY)),
        GrammarRule(
            "conditionalOr",
            (
                Invoke("conditionalAnd", "e"),
                Star((_match(lexer.LOGICAL_OR, "ops"), Invoke("conditionalAnd", "e1"))),
            ),
        ),
        GrammarRule(
            "conditionalAnd",
            (Invoke("relation", "e"), Star((_match(lexer.LOGICAL_AND, "ops"), Invoke("relation", "e1")))),
        ),
        GrammarRule("relation", (Invoke("calc", "calc"),), (_operator("relation", 1, _RELATIONS, "relation"),)),
        GrammarRule(
            "calc",
            (Invoke("unary", "unary"),),
            (_operator("calc", 2, _FACTORS, "calc"), _operator("calc", 1, _TERMS, "calc")),
        ),
        GrammarRule("unary", (_UNARY,)),
        GrammarRule("member", (Invoke("primary", "primary"),), (_SELECT, _MEMBER_CALL, _INDEX), "PrimaryExpr"),
        GrammarRule("primary", (_PRIMARY,)),
        GrammarRule("exprList", _separated(Invoke("expr", "list"), again=(Invoke("expr", "list"),), adaptive=False)),
        GrammarRule(
            "listInit", _separated(Invoke("optExpr", "list"), again=(Invoke("optExpr", "list"),), adaptive=True)
        ),
        GrammarRule("fieldInitializerList", _separated(*_field(), again=_field(), adaptive=True)),
        GrammarRule("optField", (_optional_mark(), Invoke("escapeIdent", "field"))),
        GrammarRule("mapInitializerList", _separated(*_entry(), again=_entry(), adaptive=True)),
        GrammarRule("escapeIdent", (_IDENTIFIER,)),
        GrammarRule("optExpr", (_optional_mark(), Invoke("expr", "e"))),
        GrammarRule("literal", (_LITERAL,)),
    )


_TERNARY = OptionalBody(
    (
        _match(lexer.QUESTIONMARK, "op"),
        Invoke("conditionalOr", "e1"),
        _match(lexer.COLON),
        Invoke("expr", "e2"),
    )
)
_UNARY = Choice(
    (
        Alternative("MemberExpr", (Invoke("member", "member"),)),
        Alternative("LogicalNot", (Plus((_match(lexer.EXCLAM, "ops"),)), Invoke("member", "member"))),
        Alternative("Negate", (Plus((_match(lexer.MINUS, "ops"),), adaptive=True), Invoke("member", "member"))),
    )
)
_IDENTIFIER = Choice(
    (
        Alternative("SimpleIdentifier", (_match(lexer.IDENTIFIER, "id"),)),
        Alternative("EscapedIdentifier", (_match(lexer.ESC_IDENTIFIER, "id"),)),
    ),
    adaptive=False,
)


def _field() -> tuple[Element, ...]:
    return Invoke("optField", "keys"), _match(lexer.COLON, "cols"), Invoke("expr", "values")


def _entry() -> tuple[Element, ...]:
    return Invoke("optExpr", "keys"), _match(lexer.COLON, "cols"), Invoke("expr", "values")


RULES: Final = _rules()
"""All rules. The first is the start of an expression."""


def rules_without_escaped_names() -> tuple[GrammarRule, ...]:
    """Return the grammar of cel-go up to 0.22. Fields are plain names; a name and its call are one alternative."""
    changed = {
        "member": GrammarRule(
            "member", (Invoke("primary", "primary"),), (_NAME_SELECT, _MEMBER_CALL, _INDEX), "PrimaryExpr"
        ),
        "primary": GrammarRule("primary", (Choice((_IDENT_OR_CALL, *_PRIMARY.alternatives[2:])),)),
        "optField": GrammarRule("optField", (_optional_mark(), _match(lexer.IDENTIFIER, "field"))),
    }
    # The automaton numbers the elements, so no two of them may share one.
    return tuple(deepcopy(changed.get(rule.name, rule)) for rule in RULES if rule.name != "escapeIdent")


REPEATED: Final = frozenset({"ops", "e1", "ids", "list", "keys", "cols", "values"})
"""Labels under which several parts are stored (`e1` only in `conditionalOr` and `conditionalAnd`)."""
