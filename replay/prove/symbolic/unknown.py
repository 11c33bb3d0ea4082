"""Results of what is not followed: fresh values, one for each function and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from replay.cel.ast.tree import (
    Ast,
    Call,
    Comprehension,
    Const,
    Expr,
    Ident,
    ListExpr,
    MapExpr,
    Select,
    StructExpr,
)
from replay.cel.value.types import Kind, Type
from replay.prove.search.interest import children
from replay.prove.symbolic.declared import schema_of
from replay.prove.symbolic.node import Node, Root
from replay.prove.symbolic.term import BOOL, INT, Term, apply, at_most, boolean, conj, integer, negated, variable
from replay.prove.symbolic.value import (
    ERROR,
    Bool,
    Case,
    Int,
    Json,
    JsonList,
    JsonMap,
    Opaque,
    Optional,
    Str,
    Value,
    known,
    value_of,
)

_LIMIT = 2**63


class Maker:
    """Makes values for a root; equal ones for equal functions and arguments."""

    def __init__(self, root: Root) -> None:
        """`root` collects the facts."""
        self.root = root
        self._known: dict[object, str] = {}

    def name_of(self, key: object) -> str:
        """A name for something, the same for equal things."""
        names = self.root.names
        return names.setdefault(key, f"#{len(names)}")

    def flag(self, *key: object) -> Term:
        """A formula of which nothing is known but that equal keys give equal ones."""
        return variable(f"flag {self.name_of(('flag', *key))}", BOOL)

    def result(
        self, function: str, arguments: tuple[object, ...], type_: Type | None, *, may_fail: bool = True
    ) -> Value:
        """The result of a function: an error, or a value of its type."""
        name = self.name_of((function, arguments))
        case = self._case(name, type_, function, arguments)
        if not may_fail:
            return known(case)
        failed = variable(f"fails {name}", BOOL)
        return value_of([(failed, ERROR), (negated(failed), case)])

    def _case(self, name: str, type_: Type | None, function: str, arguments: tuple[object, ...]) -> Case:  # noqa: PLR0911
        kind = None if type_ is None else type_.kind
        if kind is Kind.BOOL:
            return Bool(variable(f"bool {name}", BOOL))
        if kind is Kind.INT:
            return self.integer(variable(f"int {name}", INT))
        if kind is Kind.STRING:
            return Str(variable(f"text {name}", INT))
        if kind is Kind.LIST:
            return JsonList(self._computed(name, "list", type_))
        if kind is Kind.MAP:
            return JsonMap(self._computed(name, "map", type_))
        if kind is Kind.OPAQUE and type_ is not None and type_.name == "optional_type":
            inner = self._case(f"{name} value", type_.parameters[0] if type_.parameters else None, function, arguments)
            return Optional(variable(f"present {name}", BOOL), known(inner))
        if kind in {None, Kind.DYN, Kind.ANY}:
            return Json(self.root.unknown(name))
        return Opaque(function, arguments)

    def integer(self, term: Term) -> Int:
        """An int, which is within 64 bits."""
        self.root.facts.append(conj(at_most(integer(-_LIMIT), term), at_most(term, integer(_LIMIT - 1))))
        return Int(term)

    def _computed(self, name: str, kind: str, type_: Type | None) -> Node:
        schema = None if type_ is None else schema_of(type_)
        node = self.root.node(name, (), schema, is_struct=boolean(False))
        self.root.facts.append(node.is_kind(kind))
        return node

    def text_result(self, function: str, *terms: Term) -> Term:
        """The number of a text that a function of texts has as its result."""
        return apply(f"text of {function}", terms, INT)

    def shape_of(self, node: Expr, scope: Mapping[str, Value], ast: Ast, variable_of: VariableOf) -> object:
        """An expression with the values of the names in it: equal shapes have equal values."""
        return _Shape(ast, scope, variable_of).of(node, {})


class _Shape:
    """What an expression is made of, without the names that it chose itself."""

    def __init__(self, ast: Ast, scope: Mapping[str, Value], variable_of: VariableOf) -> None:
        self._ast = ast
        self._scope = scope
        self._variable_of = variable_of

    def of(self, node: Expr, bound: Mapping[str, int]) -> tuple[object, ...]:
        """The shape of a node; `bound` are the names of the loops around it."""
        match node:
            case Ident():
                return self._name(node, bound)
            case Select() if isinstance(node.operand, Ident) and node.operand.name == "variables":
                return ("variable", node.test_only, self._variable_of(node.field))
            case Comprehension():
                inner = dict(bound)
                for name in (node.iter_var, node.iter_var2, node.accu_var):
                    inner[name] = 1 + max(inner.values(), default=0)
                parts = (node.accu_init, node.loop_condition, node.loop_step, node.result)
                loop = tuple(self.of(part, inner) for part in parts)
                return ("loop", bool(node.iter_var2), self.of(node.iter_range, bound), loop)
        below = tuple(self.of(child, bound) for child in children(node))
        return (type(node).__name__, _written(node), self._reference(node), below)

    def _name(self, node: Ident, bound: Mapping[str, int]) -> tuple[object, ...]:
        if node.name in bound:
            return ("bound", bound[node.name])
        if node.name in self._scope:
            return ("value", self._scope[node.name])
        # The whole map of variables is that of its policy alone, and equals nothing.
        return ("name", node.name, object() if node.name == "variables" else None)

    def _reference(self, node: Expr) -> str:
        found = self._ast.reference_map.get(node.id)
        return found.name if found is not None else ""


def _written(node: Expr) -> object:  # noqa: PLR0911 - one case a kind
    """What stands in a node beside its parts."""
    match node:
        case Const():
            return (type(node.value).__name__, node.value)
        case Select():
            return (node.field, node.test_only)
        case Call():
            return (node.function, node.target is not None)
        case ListExpr():
            return tuple(sorted(node.optional_indices))
        case MapExpr():
            return tuple(each.optional for each in node.entries)
        case StructExpr():
            return (node.type_name, tuple((each.field, each.optional) for each in node.fields))
    return None


VariableOf = Callable[[str], Value | None]
"""The value of a policy's variable."""
