"""Expressions without nested calls, as OPA's compiler makes them (`opa/v1/ast/compile.go`).

Nested calls, and references in operands, are taken out into variables of their own (`rewriteExprTerms`,
`rewriteDynamics`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from replay.gatekeeper.rego.ast import (
    ArrayTerm,
    Call,
    Comprehension,
    Every,
    Infix,
    Literal_,
    Membership,
    NegatedBody,
    ObjectTerm,
    Ref,
    Scalar,
    SetTerm,
    SomeIn,
    TemplateString,
    Term,
    Var,
)

Path = tuple[str, ...]
_INFIX = {
    "+": "plus",
    "-": "minus",
    "*": "mul",
    "/": "div",
    "%": "rem",
    "&": "and",
    "|": "or",
    "<": "lt",
    "<=": "lte",
    ">": "gt",
    ">=": "gte",
    "!=": "neq",
    "==": "equal",
}


class Expression(NamedTuple):
    """Expression without nested calls: `=`, a call of a builtin or of the function at a path, or one term."""

    operator: str | Path | None
    operands: tuple[Any, ...]
    line: int
    references: tuple[Ref, ...] = ()
    """Further references in it."""


class Flattener:
    """Maker of expressions without nested calls."""

    def __init__(self, fresh: Iterator[int]) -> None:
        """`fresh` numbers the variables."""
        self._fresh = fresh
        self.found: list[Expression] = []

    def literal(self, literal: Literal_) -> None:
        """Add the expressions of a literal."""
        for with_ in literal.modifiers:
            self._held(with_.value)
        expression: Any = literal.expression
        match expression:
            case Every():
                self._held(expression.collection)
                self.found.append(Expression(None, (), literal.line, tuple(_references(expression.body))))
            case NegatedBody():
                self.found.append(Expression(None, (), literal.line, tuple(_references(expression.body))))
            case SomeIn(collection=Scalar()):
                self.equal(expression, expression, literal.line)  # neither side has a type
            case SomeIn():
                key = Var(f"#t{next(self._fresh)}", literal.line) if expression.key is None else expression.key
                element = self.side(Ref(expression.collection, (key,), literal.line))
                self.equal(self.side(expression.value), element, literal.line)
            case Infix(operator="=" | "=="):
                self.equal(self.side(expression.left), self.side(expression.right), expression.line)
            case Call() | Infix() | Membership():
                self._call(expression, ())
            case _:
                self.found.append(Expression(None, (self.side(expression),), literal.line))

    def equal(self, left: Any, right: Any, line: int) -> None:
        """Add an equality of two terms without calls."""
        self.found.append(Expression("=", (left, right), line))

    def _call(self, term: Call | Infix | Membership, output: tuple[Term, ...]) -> None:
        operator: str | Path
        arguments: tuple[Term, ...]
        match term:
            case Call():
                function = term.function
                operator = function.name if isinstance(function, Var) else _path(function)
                arguments = term.arguments
            case Infix():
                operator, arguments = _INFIX[term.operator], (term.left, term.right)
            case Membership():
                operator = "internal.member_2" if term.key is None else "internal.member_3"
                arguments = (term.value, term.collection)
                if term.key is not None:
                    arguments = (term.key, *arguments)
        self.found.append(Expression(operator, (*map(self._held, arguments), *output), term.line))

    def side(self, term: Any) -> Any:
        """Return a term without calls, which may be a reference or a comprehension."""
        match term:
            case Infix(operator="="):
                self.equal(self.side(term.left), self.side(term.right), term.line)
                return Scalar(True, term.line)
            case Call() | Infix() | Membership():
                output = self._variable(term.line)
                self._call(term, (output,))
                return output
            case Ref():
                head, operands = term.head, tuple(map(self._held, term.operands))
                if isinstance(head, Ref):
                    found = self.side(head)
                    return Ref(found.head, (*found.operands, *operands), term.line)
                if not isinstance(head, Var):
                    head = self._variable(term.line)
                    self.equal(head, self.side(term.head), term.line)
                return Ref(head, operands, term.line)
            case ArrayTerm() | SetTerm():
                return type(term)(tuple(map(self._held, term.items)), term.line)
            case ObjectTerm():
                entries = tuple((self._held(key), self._held(value)) for key, value in term.entries)
                return ObjectTerm(entries, term.line)
            case TemplateString():
                for part in term.parts:
                    if not isinstance(part, str):
                        self._held(Comprehension("set", None, part, (), term.line))
        return term

    def _held(self, term: Any) -> Any:
        """Return a term without calls, with a variable for a reference or a comprehension."""
        found = self.side(term)
        if not isinstance(found, Ref | Comprehension):
            return found
        variable = self._variable(found.line)
        self.equal(variable, found, found.line)
        return variable

    def _variable(self, line: int) -> Var:
        return Var(f"#t{next(self._fresh)}", line)


def _path(function: Ref) -> Path:
    return tuple(operand.value for operand in function.operands if isinstance(operand, Scalar))


def _references(node: Any) -> Iterator[Ref]:
    if isinstance(node, tuple):
        for part in node:
            yield from _references(part)
    elif isinstance(node, Ref):
        operands = [part if isinstance(part, Scalar | Var) else Var("#e", node.line) for part in node.operands]
        if isinstance(node.head, Var):
            yield Ref(node.head, tuple(operands), node.line)
        for part in (node.head, *node.operands):
            yield from _references(part)
    elif isinstance(node, Call):
        yield from _references(node.arguments)
    elif isinstance(node, msgspec.Struct) and not isinstance(node, Comprehension):
        for name in node.__struct_fields__:
            yield from _references(getattr(node, name))
