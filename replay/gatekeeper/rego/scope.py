"""Name resolution: local variables get unique names, everything else becomes a path from `data` or `input`.

The rules are `resolveAllRefs` and `rewriteLocalVars` in `opa/v1/ast/compile.go`. Names that `some`, `:=`, `every` and
function arguments declare are visible in the body and in nested bodies. An undeclared variable belongs to the body in
which it first occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from replay.gatekeeper.rego.ast import (
    ArrayTerm,
    Call,
    Comprehension,
    Every,
    Head,
    Infix,
    Literal_,
    Membership,
    Module,
    NegatedBody,
    ObjectTerm,
    Ref,
    Rule,
    Scalar,
    SetTerm,
    SomeDeclaration,
    SomeIn,
    TemplateString,
    Term,
    Var,
    With,
    reference_text,
)
from replay.gatekeeper.rego.lexer import RegoError, UnsupportedRegoError

Names = dict[str, str]
_ARGUMENT = "argument"


class Scope:
    """Names of one module."""

    def __init__(self, module: Module, file: str) -> None:
        """Collect the names of the module's imports and rules."""
        self.file = file
        self.globals: dict[str, tuple[str, ...]] = {}
        for found in module.imports:
            if found.path[0] in ("data", "input"):
                self.globals[found.alias] = found.path
        for rule in module.rules:
            self.globals[rule.head.name[0]] = ("data", *module.package, rule.head.name[0])
        self._count = 0

    def rule(self, rule: Rule) -> Rule:
        """Return a rule with its names resolved."""
        names: Names = {}
        return self._clause(rule, names)

    def _clause(self, rule: Rule, outer: Names) -> Rule:
        names = dict(outer)
        head = rule.head
        arguments = None
        declared: dict[str, str] = {}
        if head.arguments is not None:
            for argument in head.arguments:
                for name in variables_of(argument):
                    if name == "input":
                        text = "args must not shadow input (use a different variable name)"
                        raise RegoError(head.line, text, "rego_compile_error", self.file)
                    names[name] = self._fresh(name)
                    declared[name] = _ARGUMENT
            if any(isinstance(each, Ref) and reference_text(each.head) == "input" for each in head.arguments):
                raise RegoError(head.line, "var input is unsafe", "rego_unsafe_var_error", self.file)
            if any(isinstance(each, TemplateString) for each in head.arguments):
                raise UnsupportedRegoError(head.line, "template strings as arguments of a rule", self.file)
            arguments = tuple(self.term(argument, names) for argument in head.arguments)
        otherwise = None if rule.otherwise is None else self.rule(rule.otherwise)
        body, names = self.body(rule.body, names, declared, used=(head.key, head.value))
        key = None if head.key is None else self.term(head.key, names)
        value = None if head.value is None else self.term(head.value, names)
        new = Head(head.name, head.line, arguments, key, value, head.is_set, head.is_assigned)
        return Rule(new, body, rule.is_default, otherwise)

    def _fresh(self, name: str) -> str:
        self._count += 1
        return f"{name}#{self._count}"

    def body(
        self,
        body: tuple[Literal_, ...],
        outer: Names,
        arguments: Mapping[str, str] | None = None,
        *,
        used: tuple[Term | None, ...] = (),
    ) -> tuple[tuple[Literal_, ...], Names]:
        """Return a body with its names resolved, and the names that are visible after it.

        `arguments` are those of a function, which its own body cannot declare again. `used` are the terms outside of
        the body that can use its variables. Raises RegoError for a variable of `some` that nothing uses.
        """
        names = dict(outer)
        declared = dict(arguments or {})
        for literal in body:
            for name in _undeclared(literal):
                if name not in names and name not in self.globals and name not in ("input", "data"):
                    names[name] = self._fresh(name)
        found = []
        for literal in body:
            found += self._literal(literal, names, declared)
        for literal in body:
            if isinstance(literal.expression, SomeDeclaration):
                for name in literal.expression.names:
                    if not _mentions(tuple(found), names[name]) and not _mentions(used, name):
                        raise self._unused(name, literal.line)
        return tuple(found), names

    def _unused(self, name: str, line: int) -> RegoError:
        shown = "_" if name.startswith("$") else name
        return RegoError(line, f"declared var {shown} unused", "rego_compile_error", self.file)

    def _literal(self, literal: Literal_, names: Names, declared: dict[str, str]) -> list[Literal_]:
        expression: Any = literal.expression
        modifiers = tuple(
            With(self.term(with_.target, names), self.term(with_.value, names)) for with_ in literal.modifiers
        )
        match expression:
            case SomeDeclaration():
                for name in expression.names:
                    self._declare(name, names, declared, literal.line)
                return []
            case SomeIn():
                collection = self.term(expression.collection, names)
                for part in (expression.key, expression.value):
                    if part is not None:
                        for name in variables_of(part):
                            self._declare(name, names, declared, literal.line)
                key = None if expression.key is None else self.term(expression.key, names)
                new: Any = SomeIn(key, self.term(expression.value, names), collection)
            case Every():
                collection = self.term(expression.collection, names)
                inner = dict(names)
                key_name = None
                if expression.key is not None:
                    key_name = inner[expression.key] = self._fresh(expression.key)
                value_name = inner[expression.value] = self._fresh(expression.value)
                body = self.body(expression.body, inner)[0]
                for declared_name in (key_name, value_name):
                    if declared_name and not declared_name.startswith("_") and not _mentions(body, declared_name):
                        raise self._unused(declared_name.split("#")[0], literal.line)
                new = Every(key_name, value_name, collection, body)
            case NegatedBody():
                new = NegatedBody(self.body(expression.body, names)[0])
            case Infix(operator=":="):
                # The right side first: it does not see the variables that the left side declares.
                right = self.term(expression.right, names)
                for name in variables_of(expression.left):
                    self._declare(name, names, declared, literal.line, "assigned")
                new = Infix("=", self.term(expression.left, names), right, expression.line)
            case _:
                new = self.term(expression, names)
        return [Literal_(new, literal.line, literal.is_negated, modifiers)]

    def _declare(self, name: str, names: Names, declared: dict[str, str], line: int, how: str = "declared") -> None:
        if name in declared and not name.startswith("$"):
            how = declared[name]
            text = f"arg {name} redeclared" if how is _ARGUMENT else f"var {name} {how} above"
            raise RegoError(line, text, "rego_compile_error", self.file)
        declared[name] = how
        names[name] = self._fresh(name)

    def term(self, term: Term, names: Mapping[str, str]) -> Term:
        """Return a term with its names resolved."""
        match term:
            case Scalar():
                return term
            case Var():
                return self._var(term, names)
            case Ref():
                return self._ref(term, names)
            case Call():
                function: Any = term.function
                if isinstance(function, Var):
                    function = self._function((function.name,), names, term.line)
                elif isinstance(function.head, Var):
                    parts = [function.head.name]
                    for operand in function.operands:
                        if not (isinstance(operand, Scalar) and isinstance(operand.value, str)):
                            raise RegoError(term.line, "undefined function", "rego_type_error", self.file)
                        parts.append(operand.value)
                    function = self._function(tuple(parts), names, term.line)
                else:
                    raise RegoError(term.line, "undefined function", "rego_type_error", self.file)
                arguments = tuple(self.term(argument, names) for argument in term.arguments)
                if isinstance(function, Var) and function.name in ("eq", "assign") and len(arguments) == 2:
                    raise UnsupportedRegoError(term.line, f"the call of {function.name}", self.file)
                return Call(function, arguments, term.line)
            case Infix():
                return Infix(term.operator, self.term(term.left, names), self.term(term.right, names), term.line)
            case Membership():
                key = None if term.key is None else self.term(term.key, names)
                return Membership(key, self.term(term.value, names), self.term(term.collection, names), term.line)
            case ArrayTerm():
                return ArrayTerm(tuple(self.term(item, names) for item in term.items), term.line)
            case SetTerm():
                return SetTerm(tuple(self.term(item, names) for item in term.items), term.line)
            case ObjectTerm():
                entries = tuple((self.term(key, names), self.term(value, names)) for key, value in term.entries)
                return ObjectTerm(entries, term.line)
            case TemplateString():
                return TemplateString(
                    tuple(part if isinstance(part, str) else self.term(part, names) for part in term.parts), term.line
                )
            case Comprehension():
                heads = [term.value] if term.key is None else [term.key, term.value]
                inner = dict(names)
                own = {name for part in heads for name in _in_term(part)} | {
                    name for literal in term.body for name in _undeclared(literal)
                }
                for name in own:
                    if name not in inner and name not in self.globals and name not in ("input", "data"):
                        inner[name] = self._fresh(name)
                body, inner = self.body(term.body, inner, used=(term.key, term.value))
                key = None if term.key is None else self.term(term.key, inner)
                return Comprehension(term.kind, key, self.term(term.value, inner), body, term.line)
        raise AssertionError(term)

    def _var(self, term: Var, names: Mapping[str, str]) -> Term:
        if term.name in names:
            return Var(names[term.name], term.line)
        if path := self.globals.get(term.name):
            return _global(path, (), term.line)
        if term.name in ("input", "data"):
            return Ref(term, (), term.line)
        return Var(term.name, term.line)

    def _ref(self, term: Ref, names: Mapping[str, str]) -> Term:
        operands = tuple(self.term(operand, names) for operand in term.operands)
        if isinstance(term.head, Var) and term.head.name not in names:
            if path := self.globals.get(term.head.name):
                return _global(path, operands, term.line)
            return Ref(term.head, operands, term.line)
        return Ref(self.term(term.head, names), operands, term.line)

    def _function(self, parts: tuple[str, ...], names: Mapping[str, str], line: int) -> Ref | Var:
        """Return the path of a function from `data`, or the name of a builtin."""
        if parts[0] in self.globals and parts[0] not in names:
            path = (*self.globals[parts[0]], *parts[1:])
            return Ref(Var(path[0], line), tuple(Scalar(part, line) for part in path[1:]), line)
        if parts[0] == "data":
            return Ref(Var("data", line), tuple(Scalar(part, line) for part in parts[1:]), line)
        return Var(".".join(parts), line)


def _global(path: tuple[str, ...], operands: tuple[Term, ...], line: int) -> Ref:
    return Ref(Var(path[0], line), tuple(Scalar(part, line) for part in path[1:]) + operands, line)


def variables_of(pattern: Term) -> list[str]:
    """Return the variables that a pattern binds, which are those outside of references and calls."""
    match pattern:
        case Var():
            return [pattern.name]
        case ArrayTerm() | SetTerm():
            return [name for item in pattern.items for name in variables_of(item)]
        case ObjectTerm():
            return [name for _, value in pattern.entries for name in variables_of(value)]
    return []


def _in_term(term: Any) -> list[str]:
    """Return the names of all variables in a term outside of comprehensions."""
    match term:
        case Var():
            return [term.name]
        case Comprehension() | Scalar() | str() | None:
            return []
        case Call():
            return [name for argument in term.arguments for name in _in_term(argument)]
        case ObjectTerm():
            return [name for entry in term.entries for part in entry for name in _in_term(part)]
        case ArrayTerm() | SetTerm():
            return [name for item in term.items for name in _in_term(item)]
        case TemplateString():
            return [name for part in term.parts for name in _in_term(part)]
    found = []
    for name in term.__struct_fields__:
        value = getattr(term, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, msgspec.Struct):
                found += _in_term(part)
    return found


def _undeclared(literal: Literal_) -> list[str]:
    """Return the names in a literal that belong to its body unless they are declared."""
    expression: Any = literal.expression
    found = [name for with_ in literal.modifiers for name in _in_term(with_.value)]
    match expression:
        case SomeDeclaration() | NegatedBody():
            return found
        case SomeIn():
            return found + _in_term(expression.collection)
        case Every():
            return found + _in_term(expression.collection)
        case Infix(operator=":="):
            return found + _in_term(expression.right)
    return found + _in_term(expression)


def _mentions(node: Any, name: str) -> bool:
    """Return whether a variable occurs in a tree."""
    if isinstance(node, tuple):
        return any(_mentions(part, name) for part in node)
    if isinstance(node, Var):
        return node.name == name
    return isinstance(node, msgspec.Struct) and any(
        _mentions(getattr(node, field), name) for field in node.__struct_fields__
    )
