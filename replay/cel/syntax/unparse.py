"""Writes a tree as text: the shortest text that parses to the same tree (ids aside).

Macros are written as they were called. Strings and bytes are quoted anew, and parentheses are written only where they
matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from replay.cel.ast import operator
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
from replay.cel.syntax.lexer import LITERALS
from replay.cel.syntax.precedence import BINARY
from replay.cel.value.values import Uint, Value

_TERNARY, _OR, _AND, _RELATION, _UNARY, _MEMBER = 0, 1, 2, 3, 6, 7
"""Binding strengths of the forms. Those of sums and products are between relations and prefixes."""

_SPELLING: Final = {
    operator.LESS: "<",
    operator.LESS_EQUALS: "<=",
    operator.GREATER_EQUALS: ">=",
    operator.GREATER: ">",
    operator.EQUALS: "==",
    operator.NOT_EQUALS: "!=",
    operator.IN: "in",
    operator.ADD: "+",
    operator.SUBTRACT: "-",
    operator.MULTIPLY: "*",
    operator.DIVIDE: "/",
    operator.MODULO: "%",
}
_STRENGTH: Final = {function: _RELATION - 1 + strength for function, strength in BINARY.values()}
_LOGICAL: Final = {operator.LOGICAL_AND: ("&&", _AND), operator.LOGICAL_OR: ("||", _OR)}
_PREFIX: Final = {operator.LOGICAL_NOT: "!", operator.NEGATE: "-"}
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIGNED: Final = re.compile(r"-|\d+(?!\d*u)")
"""Pattern for the start of a number that may have a sign: an int or a double, but not a uint."""
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def unparse(ast: Ast) -> str:
    """Return the text of an expression.

    Raises ValueError for a tree that no text parses to, such as one without its macro calls.
    """
    return with_deep_stack(lambda: _Writer(ast.macro_calls).text(ast.expr, _TERNARY))


class _Writer:
    """Writes nodes as operands that must bind with a given strength."""

    def __init__(self, macro_calls: Mapping[int, Expr]) -> None:
        self.macro_calls = macro_calls

    def text(self, node: Expr, least: int) -> str:
        """Return the node's text, in parentheses if it binds more weakly than `least`."""
        node = self.macro_calls.get(node.id, node)
        write = _WRITERS.get(type(node))
        if write is None:
            raise ValueError(f"no text for {type(node).__name__}")
        strength, text = write(self, node)
        return text if strength >= least else f"({text})"

    def const(self, node: Const) -> tuple[int, str]:
        return _MEMBER, text_from_value(node.value)

    def ident(self, node: Ident) -> tuple[int, str]:
        return _MEMBER, node.name

    def select(self, node: Select) -> tuple[int, str]:
        text = f"{self.text(node.operand, _MEMBER)}.{_field(node.field)}"
        return _MEMBER, f"has({text})" if node.test_only else text

    def call(self, node: Call) -> tuple[int, str]:
        function, args = node.function, node.args
        if function in _SPELLING:
            strength = _STRENGTH[function]
            left, right = self.text(args[0], strength), self.text(args[1], strength + 1)
            return strength, f"{left} {_SPELLING[function]} {right}"
        if function in _LOGICAL:
            return self.logical(node)
        if function in _PREFIX:
            return _UNARY, self.prefixed(_PREFIX[function], args[0])
        if function == operator.CONDITIONAL:
            condition, if_true = self.text(args[0], _OR), self.text(args[1], _OR)
            return _TERNARY, f"{condition} ? {if_true} : {self.text(args[2], _TERNARY)}"
        return _MEMBER, self.member(node)

    def member(self, node: Call) -> str:
        function, args = node.function, node.args
        if function in (operator.INDEX, operator.OPT_INDEX):
            mark = "?" if function == operator.OPT_INDEX else ""
            return f"{self.text(args[0], _MEMBER)}[{mark}{self.text(args[1], _TERNARY)}]"
        if function == operator.OPT_SELECT:
            field = args[1]
            assert isinstance(field, Const)
            return f"{self.text(args[0], _MEMBER)}.?{_field(field.value)}"
        listed = ", ".join([self.text(arg, _TERNARY) for arg in args])
        receiver = "" if node.target is None else f"{self.text(node.target, _MEMBER)}."
        return f"{receiver}{function}({listed})"

    def prefixed(self, prefix: str, node: Expr) -> str:
        """Return a prefix and its operand, in parentheses if a minus would become the sign of the operand's first number."""
        text = self.text(node, _MEMBER)
        merges = prefix == "-" and _SIGNED.match(text)
        return f"{prefix}({text})" if merges else prefix + text

    def logical(self, node: Call) -> tuple[int, str]:
        """Write a chain flat if parsing balances it to the same tree."""
        symbol, strength = _LOGICAL[node.function]
        terms = self.terms(node, node.function)
        if self.is_balanced(node, node.function, len(terms)):
            return strength, f" {symbol} ".join([self.text(term, strength + 1) for term in terms])
        left, right = (self.text(arg, strength + 1) for arg in node.args)
        return strength, f"{left} {symbol} {right}"

    def is_chain(self, node: Expr, function: str) -> bool:
        return isinstance(node, Call) and node.function == function and node.id not in self.macro_calls

    def terms(self, node: Expr, function: str) -> list[Expr]:
        if not (isinstance(node, Call) and self.is_chain(node, function)):
            return [node]
        return [term for arg in node.args for term in self.terms(arg, function)]

    def is_balanced(self, node: Expr, function: str, count: int) -> bool:
        """Return whether a chain of `count` terms would be parsed to this tree.

        `ExprFactory.balanced` puts the odd term into the left half.
        """
        if count == 1:
            return not self.is_chain(node, function)
        if not (isinstance(node, Call) and self.is_chain(node, function)):
            return False
        left = (count - 1) // 2 + 1
        return self.is_balanced(node.args[0], function, left) and self.is_balanced(node.args[1], function, count - left)

    def list(self, node: ListExpr) -> tuple[int, str]:
        elements = [
            ("?" if index in node.optional_indices else "") + self.text(element, _TERNARY)
            for index, element in enumerate(node.elements)
        ]
        return _MEMBER, f"[{', '.join(elements)}]"

    def map(self, node: MapExpr) -> tuple[int, str]:
        return _MEMBER, f"{{{', '.join([self.entry(entry) for entry in node.entries])}}}"

    def entry(self, entry: MapEntry) -> str:
        mark = "?" if entry.optional else ""
        return f"{mark}{self.text(entry.key, _TERNARY)}: {self.text(entry.value, _TERNARY)}"

    def struct(self, node: StructExpr) -> tuple[int, str]:
        return _MEMBER, f"{node.type_name}{{{', '.join([self.field(field) for field in node.fields])}}}"

    def field(self, field: StructField) -> str:
        mark = "?" if field.optional else ""
        return f"{mark}{_field(field.field)}: {self.text(field.value, _TERNARY)}"


def _field(name: str) -> str:
    if _IDENTIFIER.fullmatch(name) and name not in LITERALS:
        return name
    return f"`{name}`"


def text_from_value(value: Value) -> str:  # noqa: PLR0911 - one spelling a type
    """Return the literal of a value.

    Raises ValueError if it is not null, a bool, an int, a uint, a double, a string or bytes.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Uint):
        return f"{int(value)}u"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return f'"{"".join([_escaped(char) for char in value])}"'
    if isinstance(value, bytes):
        return 'b"' + "".join([f"\\{byte:03o}" for byte in value]) + '"'
    raise ValueError(f"no literal for {type(value).__name__}")


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char >= " " else f"\\x{ord(char):02x}"


_WRITERS: Final[dict[type[Expr], Callable[[_Writer, Any], tuple[int, str]]]] = {
    Const: _Writer.const,
    Ident: _Writer.ident,
    Select: _Writer.select,
    Call: _Writer.call,
    ListExpr: _Writer.list,
    MapExpr: _Writer.map,
    StructExpr: _Writer.struct,
}
