"""The fast parser: a recursive descent over the tokens that knows only well-formed expressions.

Text that is not well-formed, or that comes near a limit, is left to `replay.cel.syntax.recovery.parser`. That parser
reads the text again the way the server's generated parser does, and finds the server's messages. Both make the trees,
ids and positions of cel-go (`parser/parser.go`).
"""

from __future__ import annotations

from replay.cel.ast import operator
from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.issues import Issues
from replay.cel.ast.source import Source
from replay.cel.ast.tree import (
    Ast,
    Call,
    Const,
    Expr,
    Ident,
    ListExpr,
    MapEntry,
    MapExpr,
    Select,
    StructExpr,
    StructField,
)
from replay.cel.declare.macros import MacroError, MacroTable
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.syntax import lexer, literal
from replay.cel.syntax.precedence import BINARY, is_shallow

_MAX_NESTING = 80


def parse(
    source: Source, macros: MacroTable, *, optional_syntax: bool = True, release: Release = NEWEST_RELEASE
) -> Ast | Issues:
    """Return the tree of an expression, or its issues. It never raises an exception."""
    scanned = lexer.scan(source.text) if len(source.text) <= lexer.MAX_CODE_POINTS else None
    if scanned is not None and is_shallow(scanned[0]):
        parser = _Parser(*scanned, macros, optional_syntax=optional_syntax, release=release)
        try:
            return parser.parse(source)
        except (_NotWellFormedError, literal.LiteralError, MacroError, RecursionError):
            pass  # read again below, to find every error
    from replay.cel.syntax.recovery.tree_visitor import parse_with_recovery  # noqa: PLC0415 - large, and only for what is wrong

    return parse_with_recovery(source, macros, optional_syntax=optional_syntax, release=release)


class _NotWellFormedError(Exception):
    """Text that the fast parser cannot read. The recovering parser finds the message."""


class _Parser:
    """Parses one list of tokens. Methods leave `at` after the tokens that they read."""

    __slots__ = ("at", "factory", "kinds", "literals", "macros", "nesting", "optional_syntax", "starts", "texts")

    def __init__(  # noqa: PLR0913 - the tokens, and what the language has
        self,
        kinds: list[int],
        texts: list[str],
        starts: list[int],
        macros: MacroTable,
        *,
        optional_syntax: bool,
        release: Release,
    ) -> None:
        self.kinds = kinds
        self.texts = texts
        self.starts = starts
        self.macros = macros
        self.optional_syntax = optional_syntax
        self.factory = ExprFactory(release)
        self.literals = literal.readers(release)
        self.at = 0
        self.nesting = 0

    def parse(self, source: Source) -> Ast:
        """Read `start = expr EOF`."""
        expr = self.expr()
        self.expect(lexer.EOF)
        return Ast(expr, source, self.factory.positions, self.factory.macro_calls)

    def expect(self, kind: int) -> None:
        if self.kinds[self.at] != kind:
            raise _NotWellFormedError
        self.at += 1

    def operator_id(self) -> int:
        """Return the id of a node at the current token, and consume the token."""
        id_ = self.factory.new_id(self.starts[self.at])
        self.at += 1
        return id_

    def expr(self) -> Expr:
        """Read `expr = or [ "?" or ":" expr ]`."""
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise _NotWellFormedError
        condition = self.conditional_or()
        if self.kinds[self.at] == lexer.QUESTIONMARK:
            id_ = self.operator_id()
            if_true = self.conditional_or()
            self.expect(lexer.COLON)
            condition = Call(id_, operator.CONDITIONAL, (condition, if_true, self.expr()))
        self.nesting -= 1
        return condition

    def conditional_or(self) -> Expr:
        """Read `or = and { "||" and }`."""
        first = self.conditional_and()
        if self.kinds[self.at] != lexer.LOGICAL_OR:
            return first
        terms = [first]
        ops: list[int] = []
        while self.kinds[self.at] == lexer.LOGICAL_OR:
            start = self.starts[self.at]
            self.at += 1
            terms.append(self.conditional_and())
            ops.append(self.factory.new_id(start))
        return self.factory.balanced(operator.LOGICAL_OR, terms, ops)

    def conditional_and(self) -> Expr:
        """Read `and = relation { "&&" relation }`."""
        first = self.binary(1)
        if self.kinds[self.at] != lexer.LOGICAL_AND:
            return first
        terms = [first]
        ops: list[int] = []
        while self.kinds[self.at] == lexer.LOGICAL_AND:
            start = self.starts[self.at]
            self.at += 1
            terms.append(self.binary(1))
            ops.append(self.factory.new_id(start))
        return self.factory.balanced(operator.LOGICAL_AND, terms, ops)

    def binary(self, strength: int) -> Expr:
        """Parse `relation` and `calc`: operands joined by operators of at least the given strength."""
        left = self.unary()
        while True:
            operator_ = BINARY.get(self.kinds[self.at])
            if operator_ is None or operator_[1] < strength:
                return left
            id_ = self.operator_id()
            left = Call(id_, operator_[0], (left, self.binary(operator_[1] + 1)))

    def unary(self) -> Expr:
        """Read `unary = member | "!" { "!" } member | "-" { "-" } member`. A number keeps its sign."""
        kind = self.kinds[self.at]
        if kind not in (lexer.EXCLAM, lexer.MINUS):
            return self.member()
        # The sign belongs to the number, because the least int has no positive counterpart.
        if kind == lexer.MINUS and self.kinds[self.at + 1] in (lexer.NUM_INT, lexer.NUM_FLOAT):
            return self.member()
        start = self.starts[self.at]
        count = 0
        while self.kinds[self.at] == kind:
            self.at += 1
            count += 1
        # cel-go drops pairs of one prefix without giving them an id.
        if count % 2 == 0:
            return self.member()
        id_ = self.factory.new_id(start)
        function = operator.NEGATE if kind == lexer.MINUS else operator.LOGICAL_NOT
        return Call(id_, function, (self.member(),))

    def member(self) -> Expr:
        """Read `member = primary { "." ["?"] field | "." name "(" args ")" | "[" ["?"] expr "]" }`."""
        node = self.primary()
        while True:
            kind = self.kinds[self.at]
            if kind == lexer.DOT:
                node = self.select(node)
            elif kind == lexer.LBRACKET:
                node = self.index(node)
            else:
                return node

    def select(self, operand: Expr) -> Expr:
        dot = self.at
        self.at += 1
        optional = self.optional_mark()
        kind = self.kinds[self.at]
        field = self.texts[self.at]
        start = self.starts[self.at]
        self.at += 1
        if kind == lexer.IDENTIFIER:
            if self.kinds[self.at] == lexer.LPAREN and not optional:
                id_ = self.operator_id()
                return self.call(id_, field, operand, self.arguments())
        elif kind == lexer.ESC_IDENTIFIER and self.factory.release >= lexer.ESCAPED_NAMES:
            field = field[1:-1]
        else:
            raise _NotWellFormedError
        if optional:
            name = Const(self.factory.new_id(start), field)
            return Call(self.factory.new_id(self.starts[dot]), operator.OPT_SELECT, (operand, name))
        return Select(self.factory.new_id(self.starts[dot]), operand, field)

    def index(self, operand: Expr) -> Expr:
        id_ = self.operator_id()
        function = operator.OPT_INDEX if self.optional_mark() else operator.INDEX
        key = self.expr()
        self.expect(lexer.RBRACKET)
        return Call(id_, function, (operand, key))

    def optional_mark(self) -> bool:
        if self.kinds[self.at] != lexer.QUESTIONMARK:
            return False
        if not self.optional_syntax:
            raise _NotWellFormedError
        self.at += 1
        return True

    def arguments(self) -> tuple[Expr, ...]:
        """Read `[ expr { "," expr } ] ")"`."""
        if self.kinds[self.at] == lexer.RPAREN:
            self.at += 1
            return ()
        args = [self.expr()]
        while self.kinds[self.at] == lexer.COMMA:
            self.at += 1
            args.append(self.expr())
        self.expect(lexer.RPAREN)
        return tuple(args)

    def call(self, id_: int, function: str, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        """Return a call, or the expansion of the macro of this name."""
        expander = self.macros.get((function, len(args), target is not None))
        if expander is not None:
            factory = self.factory
            factory.macro_offset = factory.positions[id_]
            expanded = expander(factory, target, args)
            if expanded is not None:
                factory.macro_calls[expanded.id] = Call(0, function, args, target)
                factory.delete_id(id_)
                return expanded
        return Call(id_, function, args, target)

    def primary(self) -> Expr:
        """Read `primary = ["."] name ["(" args ")"] | message | "(" expr ")" | list | map | literal`."""
        kind = self.kinds[self.at]
        if kind == lexer.IDENTIFIER:
            return self.name("")
        if kind in self.literals or kind == lexer.MINUS:
            return self.constant()
        if kind == lexer.LPAREN:
            self.at += 1
            node = self.expr()
            self.expect(lexer.RPAREN)
            return node
        if kind == lexer.LBRACKET:
            return self.list()
        if kind == lexer.LBRACE:
            return self.map()
        if kind == lexer.DOT and self.kinds[self.at + 1] == lexer.IDENTIFIER:
            self.at += 1
            return self.name(".")
        raise _NotWellFormedError

    def name(self, leading_dot: str) -> Expr:
        start = self.at
        after = start + 1
        kinds = self.kinds
        while kinds[after] == lexer.DOT and kinds[after + 1] == lexer.IDENTIFIER:
            after += 2
        if kinds[after] == lexer.LBRACE:
            self.at = after
            return self.message(leading_dot + ".".join(self.texts[start:after:2]))
        text = self.texts[start]
        if text in lexer.RESERVED:
            raise _NotWellFormedError
        self.at = start + 1
        if kinds[self.at] == lexer.LPAREN:
            id_ = self.operator_id()
            return self.call(id_, leading_dot + text, None, self.arguments())
        return Ident(self.factory.new_id(self.starts[start]), leading_dot + text)

    def message(self, type_name: str) -> Expr:
        """Read `"{" [ field ":" expr { "," field ":" expr } ] [","] "}"`."""
        id_ = self.operator_id()
        fields: list[StructField] = []
        more = self.begins(lexer.RBRACE)
        while more:
            optional = self.optional_mark()
            kind, field = self.kinds[self.at], self.texts[self.at]
            if kind != lexer.IDENTIFIER and (
                kind != lexer.ESC_IDENTIFIER or self.factory.release < lexer.ESCAPED_NAMES
            ):
                raise _NotWellFormedError
            self.at += 1
            if self.kinds[self.at] != lexer.COLON:
                raise _NotWellFormedError
            field_id = self.operator_id()
            name = field if kind == lexer.IDENTIFIER else field[1:-1]
            fields.append(StructField(field_id, name, self.expr(), optional))
            more = self.has_more(lexer.RBRACE)
        self.end(lexer.RBRACE)
        return StructExpr(id_, type_name, tuple(fields))

    def list(self) -> Expr:
        """Read `list = "[" [ ["?"] expr { "," ["?"] expr } ] [","] "]"`."""
        id_ = self.operator_id()
        elements: list[Expr] = []
        optional: list[int] = []
        more = self.begins(lexer.RBRACKET)
        while more:
            if self.optional_mark():
                optional.append(len(elements))
            elements.append(self.expr())
            more = self.has_more(lexer.RBRACKET)
        self.end(lexer.RBRACKET)
        return ListExpr(id_, tuple(elements), frozenset(optional))

    def map(self) -> Expr:
        """Read `map = "{" [ ["?"] expr ":" expr { "," ["?"] expr ":" expr } ] [","] "}"`."""
        id_ = self.operator_id()
        entries: list[MapEntry] = []
        more = self.begins(lexer.RBRACE)
        while more:
            entries.append(self.entry())
            more = self.has_more(lexer.RBRACE)
        self.end(lexer.RBRACE)
        return MapExpr(id_, tuple(entries))

    def entry(self) -> MapEntry:
        """Read `["?"] expr ":" expr`. The id of the colon is given before those of key and value."""
        factory = self.factory
        optional = self.optional_mark()
        id_ = factory.new_id(0)
        key = self.expr()
        factory.positions[id_] = self.starts[self.at]
        self.expect(lexer.COLON)
        return MapEntry(id_, key, self.expr(), optional)

    def begins(self, closing: int) -> bool:
        """Return whether there is an element before the end."""
        return self.kinds[self.at] not in (closing, lexer.COMMA)

    def has_more(self, closing: int) -> bool:
        """Return whether a comma and another element follow. Only then is the comma read."""
        if self.kinds[self.at] != lexer.COMMA or self.kinds[self.at + 1] == closing:
            return False
        self.at += 1
        return True

    def end(self, closing: int) -> None:
        """Read the closing bracket, after at most one comma."""
        if self.kinds[self.at] == lexer.COMMA:
            self.at += 1
        self.expect(closing)

    def constant(self) -> Expr:
        """Read `literal = ["-"] int | uint | ["-"] double | string | bytes | "true" | "false" | "null"`."""
        start = self.starts[self.at]
        sign = ""
        if self.kinds[self.at] == lexer.MINUS:
            sign = "-"
            self.at += 1
            if self.kinds[self.at] not in (lexer.NUM_INT, lexer.NUM_FLOAT):
                raise _NotWellFormedError
        value = self.literals[self.kinds[self.at]](sign + self.texts[self.at])
        self.at += 1
        return Const(self.factory.new_id(start), value)
