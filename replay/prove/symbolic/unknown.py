"""Unmodelled results: one fresh value per function and arguments, with the facts of its declared type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from replay.cel.ast.tree import Ast, Expr, Ident, Select
from replay.cel.ast.walk import BoundNames, children, own_parts, shape_of
from replay.cel.value.types import Kind, Type
from replay.cellib.declared_type import STRUCT_FIELDS
from replay.kube.schema import Schema
from replay.prove.symbolic.node import JsonNode, Root
from replay.prove.symbolic.term import BOOL, INT, Term, apply, at_most, boolean, conj, integer, negated, variable
from replay.prove.symbolic.value import (
    ERROR,
    Bool,
    Int,
    Json,
    JsonList,
    JsonMap,
    Opaque,
    Str,
    SymbolicOptional,
    SymbolicValue,
    ValueCase,
    known,
    value_of,
)

_SCALARS = {Kind.STRING: "string", Kind.INT: "integer", Kind.BOOL: "boolean"}


@lru_cache(maxsize=512)
def schema_of(type_: Type) -> Schema | None:
    """Return the schema of a declared type, or None if it allows any value."""
    node = _node(type_)
    return Schema(node, {}) if node else None


def _node(type_: Type) -> Mapping[str, Any]:
    if type_.kind in _SCALARS:
        return {"type": _SCALARS[type_.kind]}
    if type_.kind is Kind.LIST:
        return {"type": "array", "items": _node(type_.parameters[0])}
    if type_.kind is Kind.MAP:
        values = _node(type_.parameters[1])
        return {"type": "object", "additionalProperties": values} if values else {}
    if type_.kind is Kind.STRUCT and type_.name in STRUCT_FIELDS:
        fields = {name: _node(field) for name, field in STRUCT_FIELDS[type_.name].items()}
        return {"type": "object", "properties": fields}
    return {}


_LIMIT = 2**63


class ValueFactory:
    """Factory of values for a root. Equal functions and arguments give equal values."""

    def __init__(self, root: Root) -> None:
        """`root` collects the facts."""
        self.root = root
        self._values: dict[object, str] = {}

    def name_of(self, key: object) -> str:
        """Return a name for a key. Equal keys have equal names."""
        names = self.root.names
        return names.setdefault(key, f"#{len(names)}")

    def flag(self, *key: object) -> Term:
        """Return an unknown formula. Equal keys give equal formulas."""
        return variable(f"flag {self.name_of(('flag', *key))}", BOOL)

    def result(
        self, function: str, arguments: tuple[object, ...], type_: Type | None, *, may_fail: bool = True
    ) -> SymbolicValue:
        """Return the result of a function: an error, or a value of its type."""
        name = self.name_of((function, arguments))
        case = self._case(name, type_, function, arguments)
        if not may_fail:
            return known(case)
        failed = variable(f"fails {name}", BOOL)
        return value_of([(failed, ERROR), (negated(failed), case)])

    def _case(self, name: str, type_: Type | None, function: str, arguments: tuple[object, ...]) -> ValueCase:  # noqa: PLR0911
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
            return SymbolicOptional(variable(f"present {name}", BOOL), known(inner))
        if kind in {None, Kind.DYN, Kind.ANY}:
            return Json(self.root.unknown(name))
        return Opaque(function, arguments)

    def integer(self, term: Term) -> Int:
        """Return an int, which is within 64 bits."""
        self.root.facts.append(conj(at_most(integer(-_LIMIT), term), at_most(term, integer(_LIMIT - 1))))
        return Int(term)

    def _computed(self, name: str, kind: str, type_: Type | None) -> JsonNode:
        schema = None if type_ is None else schema_of(type_)
        node = self.root.node(name, (), schema, is_struct=boolean(False))
        self.root.facts.append(node.is_kind(kind))
        return node

    def text_result(self, function: str, *terms: Term) -> Term:
        """Return the number of the text that a function of texts returns."""
        return apply(f"text of {function}", terms, INT)

    def shape_of(self, node: Expr, scope: Mapping[str, SymbolicValue], ast: Ast, variable_of: VariableOf) -> object:
        """Return an expression with the values of its names. Equal shapes have equal values."""

        def leaf(part: Expr, around: BoundNames) -> object:
            if isinstance(part, Ident):
                if part.name in scope:
                    return ("value", scope[part.name])
                # The whole map of variables is that of its policy alone, and equals nothing.
                return ("name", part.name, object() if part.name == "variables" else _reference(ast, part))
            if isinstance(part, Select) and isinstance(part.operand, Ident) and part.operand.name == "variables":
                return ("variable", part.test_only, variable_of(part.field))
            reference = _reference(ast, part)
            if not reference:
                return None
            return (reference, own_parts(part), tuple(shape_of(child, leaf, around) for child in children(part)))

        return shape_of(node, leaf)


def _reference(ast: Ast, node: Expr) -> str:
    """Return the full name that a node refers to, or an empty text."""
    reference = ast.reference_map.get(node.id)
    return reference.name if reference is not None else ""


VariableOf = Callable[[str], SymbolicValue | None]
"""Function that returns the value of a policy's variable."""
