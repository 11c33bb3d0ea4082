"""Turns the tree of the recovering parser into an expression (the visitor of cel-go's `parser.go`).

Any part of the tree may be missing. Errors in literals, names and macros are found here, even behind syntax errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replay.cel.ast import operator
from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.issues import BEFORE_START, NO_OFFSET, Issues
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
from replay.cel.ast.walk import with_deep_stack
from replay.cel.declare.macros import MacroError, MacroTable
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.syntax import lexer, literal
from replay.cel.syntax.lexer import ESCAPED_NAMES, RESERVED, Token
from replay.cel.syntax.recovery.parser import LimitError, parse_tree
from replay.cel.syntax.recovery.syntax_tree import AbortedError, Tree

MAX_DEPTH: Final = 250


class _VisitDepthError(Exception):
    """Tree that is too deep. `str()` is the server's text."""


_TRANSPARENT: Final = {
    "expr": ("op", "e"),
    "conditionalOr": ("ops", "e"),
    "conditionalAnd": ("ops", "e"),
    "MemberExpr": ("", "member"),
    "PrimaryExpr": ("", "primary"),
    "Nested": ("", "e"),
    "ConstantLiteral": ("", "literal"),
}
"""Rules that are only steps towards another one: if the first part is missing, the second is the whole content."""

_BINARY_OPERATORS: Final = {
    "<": operator.LESS,
    "<=": operator.LESS_EQUALS,
    ">=": operator.GREATER_EQUALS,
    ">": operator.GREATER,
    "==": operator.EQUALS,
    "!=": operator.NOT_EQUALS,
    "in": operator.IN,
    "+": operator.ADD,
    "-": operator.SUBTRACT,
    "*": operator.MULTIPLY,
    "/": operator.DIVIDE,
    "%": operator.MODULO,
}


def _unnest(tree: Tree | None) -> Tree | None:
    while tree is not None:
        if tree.name in _TRANSPARENT:
            mark, inner = _TRANSPARENT[tree.name]
            if mark in tree.parts:
                return tree
            tree = tree.tree(inner)
        elif tree.name in ("relation", "calc") and "op" not in tree.parts:
            tree = tree.tree("calc" if tree.name == "relation" else "unary")
        else:
            return tree
    return None


def _expr_from_tree(
    tree: Tree, factory: ExprFactory, issues: Issues, macros: MacroTable, *, optional_syntax: bool
) -> Expr:
    """Return the expression of a tree, made with `factory`. Raises `_VisitDepthError`.

    The order of ids is that of the fast parser. Missing parts become plain `Expr` nodes.
    """
    return _TreeVisitor(factory, issues, macros, optional_syntax=optional_syntax).visit(tree)


class _TreeVisitor:
    """Visitor with one method per rule or alternative of the grammar."""

    def __init__(self, factory: ExprFactory, issues: Issues, macros: MacroTable, *, optional_syntax: bool) -> None:
        self.issues = issues
        self.macros = macros
        self.optional_syntax = optional_syntax
        self.factory = factory
        self._depth = 0

    def visit(self, tree: Tree | None) -> Expr:
        """Return the expression of a tree. Raises `_VisitDepthError`."""
        inner = _unnest(tree.tree("e") if tree is not None and tree.name == "start" else tree)
        visit = None if inner is None else _VISITS.get(inner.name)
        if inner is None or visit is None:
            return self._unknown(inner)
        if inner.name not in _COUNTED:
            return visit(self, inner)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _VisitDepthError("max recursion depth exceeded")
        node = visit(self, inner)
        self._depth -= 1
        return node

    def _unknown(self, tree: Tree | None) -> Expr:
        """Return a node for a part that could not be read. Another error has been reported for it."""
        if not self.issues:
            return self._report(None, f"unknown parse element encountered: <<{'nil' if tree is None else tree.name}>>")
        return self._unspecified(None)

    def _unspecified(self, place: Tree | Token | None) -> Expr:
        return Expr(self._id(place))

    def _id(self, place: Tree | Token | None) -> int:
        if place is None:
            return self.factory.new_id(BEFORE_START)
        return self.factory.new_id(place.start if isinstance(place, Token) else place.start.start)

    def _token_id(self, token: Token | None) -> int:
        """Return the id of a node at a token. Nodes whose token is missing share one id, which has no position."""
        return -1 if token is None else self._id(token)

    def _report(self, place: Tree | Token | None, message: str) -> Expr:
        node = self._unspecified(place)
        offset = NO_OFFSET if place is None else self.factory.positions[node.id]
        self.issues.report(node.id, offset, message)
        return node

    def expr(self, tree: Tree) -> Expr:
        condition = self.visit(tree.tree("e"))
        id_ = self._id(tree.token("op"))
        if_true = self.visit(tree.tree("e1"))
        return Call(id_, operator.CONDITIONAL, (condition, if_true, self.visit(tree.tree("e2"))))

    def logical(self, tree: Tree) -> Expr:
        terms = [self.visit(tree.tree("e"))]
        ops: list[int] = []
        for op, term in zip(tree.tokens("ops"), tree.trees("e1"), strict=False):
            terms.append(self.visit(term))
            ops.append(self._id(op))
        function = operator.LOGICAL_OR if tree.name == "conditionalOr" else operator.LOGICAL_AND
        return self.factory.balanced(function, terms, ops)

    def binary(self, tree: Tree) -> Expr:
        op = tree.token("op")
        assert op is not None
        operands = [child for child in tree.children if child.name == tree.name]
        left = self.visit(operands[0] if operands else None)
        id_ = self._id(op)
        right = self.visit(operands[1] if len(operands) > 1 else None)
        return Call(id_, _BINARY_OPERATORS[op.text], (left, right))

    def unary_error(self, tree: Tree) -> Expr:
        return Const(self._id(tree), "<<error>>")

    def prefix(self, tree: Tree) -> Expr:
        ops = tree.tokens("ops")
        if len(ops) % 2 == 0:
            return self.visit(tree.tree("member"))
        id_ = self._id(ops[0])
        function = operator.LOGICAL_NOT if tree.name == "LogicalNot" else operator.NEGATE
        return Call(id_, function, (self.visit(tree.tree("member")),))

    def select(self, tree: Tree) -> Expr:
        operand = self.visit(tree.children[0])
        op, name = tree.token("op"), tree.tree("id") or tree.token("id")
        if op is None or name is None:
            return self._unspecified(tree)
        field = self._field_name(name, name)
        if tree.token("opt") is not None:
            if not self.optional_syntax:
                return self._report(op, "unsupported syntax '.?'")
            key = Const(self._id(name), field)
            return Call(self._id(op), operator.OPT_SELECT, (operand, key))
        return Select(self._id(op), operand, field)

    def _field_name(self, name: Tree | Token, place: Tree | Token) -> str:
        if isinstance(name, Token):
            return name.text
        token = name.token("id")
        if token is None:
            self._report(place, "unsupported ident kind")
            return ""
        if name.name == "SimpleIdentifier":
            return token.text
        if self.factory.release < ESCAPED_NAMES:
            self._report(place, "unsupported syntax: '`'")
            return ""
        return token.text[1:-1]

    def member_call(self, tree: Tree) -> Expr:
        operand = self.visit(tree.children[0])
        name = tree.token("id")
        if name is None:
            return self._unspecified(tree)
        id_ = self._token_id(tree.token("open"))
        return self._call(id_, name.text, operand, self._arguments(tree))

    def index(self, tree: Tree) -> Expr:
        operand = self.visit(tree.children[0])
        op = tree.token("op")
        if op is None:
            return self._unspecified(tree)
        id_ = self._id(op)
        key = self.visit(tree.tree("index"))
        function = operator.INDEX
        if tree.token("opt") is not None:
            if not self.optional_syntax:
                return self._report(op, "unsupported syntax '[?'")
            function = operator.OPT_INDEX
        return Call(id_, function, (operand, key))

    def _arguments(self, tree: Tree) -> tuple[Expr, ...]:
        args = tree.tree("args")
        return () if args is None else tuple([self.visit(arg) for arg in args.trees("list")])

    def _call(self, id_: int, function: str, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        expander = self.macros.get((function, len(args), target is not None))
        if expander is None:
            return Call(id_, function, args, target)
        factory = self.factory
        factory.macro_offset = factory.positions.get(id_, BEFORE_START)
        try:
            expanded = expander(factory, target, args)
        except MacroError as error:
            factory.delete_id(id_)
            return self._report_at(factory.positions.get(error.node.id, NO_OFFSET), error.message)
        if expanded is None:
            return Call(id_, function, args, target)
        factory.macro_calls[expanded.id] = Call(0, function, args, target)
        factory.delete_id(id_)
        return expanded

    def _report_at(self, offset: int, message: str) -> Expr:
        node = Expr(self.factory.new_id(max(offset, BEFORE_START)))
        self.issues.report(node.id, offset, message)
        return node

    def ident(self, tree: Tree) -> Expr:
        name = tree.token("id")
        if name is None:
            return self._unspecified(tree)
        if name.text in RESERVED:
            return self._report(tree, f"reserved identifier: {name.text}")
        return Ident(self._id(name), _leading_dot(tree) + name.text)

    def global_call(self, tree: Tree) -> Expr:
        name = tree.token("id")
        if name is None:
            return self._unspecified(tree)
        if name.text in RESERVED:
            return self._report(tree, f"reserved identifier: {name.text}")
        id_ = self._token_id(tree.token("op"))
        return self._call(id_, _leading_dot(tree) + name.text, None, self._arguments(tree))

    def ident_or_global_call(self, tree: Tree) -> Expr:
        return self.ident(tree) if tree.token("op") is None else self.global_call(tree)

    def list(self, tree: Tree) -> Expr:
        id_ = self._token_id(tree.token("op"))
        elements: list[Expr] = []
        optional: list[int] = []
        init = tree.tree("elems")
        for element in [] if init is None else init.trees("list"):
            elements.append(self.visit(element.tree("e")))
            mark = element.token("opt")
            if mark is not None and not self.optional_syntax:
                self._report(mark, "unsupported syntax '?'")
            elif mark is not None:
                optional.append(len(elements) - 1)
        return ListExpr(id_, tuple(elements), frozenset(optional))

    def map(self, tree: Tree) -> Expr:
        id_ = self._token_id(tree.token("op"))
        entries: list[MapEntry] = []
        init = tree.tree("entries")
        if init is not None:
            keys, values = init.trees("keys"), init.trees("values")
            for index, colon in enumerate(init.tokens("cols")):
                entry_id = self._id(colon)
                if index >= len(values):
                    entries.clear()  # cel-go drops all entries when one is incomplete
                    break
                key, optional = keys[index], keys[index].token("opt") is not None
                if optional and not self.optional_syntax:
                    self._report(key, "unsupported syntax '?'")
                    continue
                key_node = self.visit(key.tree("e"))
                entries.append(MapEntry(entry_id, key_node, self.visit(values[index]), optional))
        return MapExpr(id_, tuple(entries))

    def message(self, tree: Tree) -> Expr:
        type_name = _leading_dot(tree) + ".".join([token.text for token in tree.tokens("ids")])
        id_ = self._token_id(tree.token("op"))
        return StructExpr(id_, type_name, self._fields(tree.tree("entries")))

    def _fields(self, init: Tree | None) -> tuple[StructField, ...]:
        fields: list[StructField] = []
        if init is None:
            return ()
        cols, values = init.tokens("cols"), init.trees("values")
        for index, field in enumerate(init.trees("keys")):
            if index >= len(cols) or index >= len(values):
                return ()
            id_ = self._id(cols[index])
            optional = field.token("opt") is not None
            if optional and not self.optional_syntax:
                self._report(field, "unsupported syntax '?'")
                continue
            name = field.tree("field") or field.token("field")
            if name is None and self.factory.release < Release.V0_23:
                return ()
            if name is None or (isinstance(name, Tree) and name.token("id") is None):
                self._report(init, "unsupported ident kind")
                continue
            field_name = self._field_name(name, init)
            fields.append(StructField(id_, field_name, self.visit(values[index]), optional))
        return tuple(fields)

    def constant(self, tree: Tree) -> Expr:
        token, sign = tree.token("tok"), tree.token("sign")
        if token is None:
            return self._unspecified(tree)
        text = token.text if sign is None else sign.text + token.text
        reader = literal.readers(self.factory.release)[token.kind] if tree.name == "String" else _READERS[tree.name]
        try:
            value = reader(text)
        except literal.LiteralError as error:
            node = self._report(tree, str(error))
            # Numbers that are none leave nothing; strings leave their text.
            return Const(self._id(tree), text) if tree.name in ("String", "Bytes") else node
        return Const(self._id(tree), value)


def _leading_dot(tree: Tree) -> str:
    return "" if tree.token("leading_dot") is None else "."


_READERS: Final[dict[str, literal.LiteralReader]] = {
    "Int": literal.int_from_literal,
    "Uint": literal.uint_from_literal,
    "Double": literal.double_from_literal,
    "String": literal.string_from_literal,
    "Bytes": literal.bytes_from_literal,
    "BoolTrue": lambda _: True,
    "BoolFalse": lambda _: False,
    "Null": lambda _: None,
}

_VISITS: Final[dict[str, Callable[[_TreeVisitor, Tree], Expr]]] = {
    "expr": _TreeVisitor.expr,
    "conditionalOr": _TreeVisitor.logical,
    "conditionalAnd": _TreeVisitor.logical,
    "relation": _TreeVisitor.binary,
    "calc": _TreeVisitor.binary,
    "unary": _TreeVisitor.unary_error,
    "LogicalNot": _TreeVisitor.prefix,
    "Negate": _TreeVisitor.prefix,
    "Select": _TreeVisitor.select,
    "MemberCall": _TreeVisitor.member_call,
    "Index": _TreeVisitor.index,
    "Ident": _TreeVisitor.ident,
    "GlobalCall": _TreeVisitor.global_call,
    "IdentOrGlobalCall": _TreeVisitor.ident_or_global_call,
    "CreateList": _TreeVisitor.list,
    "CreateStruct": _TreeVisitor.map,
    "CreateMessage": _TreeVisitor.message,
    **dict.fromkeys(_READERS, _TreeVisitor.constant),
}

_COUNTED: Final = frozenset({"expr", "relation", "calc", "Select", "MemberCall", "Index"})
"""Rules that count towards the depth of a tree."""


# Parses text that may not be well-formed, and finds everything that the server finds wrong with it.


def parse_with_recovery(
    source: Source, macros: MacroTable, *, optional_syntax: bool, release: Release = NEWEST_RELEASE
) -> Ast | Issues:
    """Return the tree of an expression, or everything that is wrong with it."""
    if len(source.text) > lexer.MAX_CODE_POINTS:
        issues = Issues(source)
        size = len(source.text)
        message = f"expression code point size exceeds limit: size: {size}, limit {lexer.MAX_CODE_POINTS}"
        issues.report(0, NO_OFFSET, message)
        return issues
    return with_deep_stack(lambda: _parse(source, macros, release, optional_syntax=optional_syntax))


def _parse(source: Source, macros: MacroTable, release: Release, *, optional_syntax: bool) -> Ast | Issues:
    issues = Issues(source)
    factory = ExprFactory(release)
    expr = None
    try:
        tree = parse_tree(source.text, issues, release)
        expr = _expr_from_tree(tree, factory, issues, macros, optional_syntax=optional_syntax)
    except (LimitError, _VisitDepthError) as error:
        issues.report(0, NO_OFFSET, str(error))
    except AbortedError:
        pass  # reported where it was found
    if issues or expr is None:
        return issues
    return Ast(expr, source, factory.positions, factory.macro_calls)
