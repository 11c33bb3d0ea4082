"""Code for lists, maps and new objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replay.cel.ast.tree import Const, Expr, ListExpr, MapExpr, StructExpr
from replay.cel.compiled.emitter import Emitter
from replay.cel.compiled.pycode import Code, NotCompiledError
from replay.cel.declare.cost import LIST_COST, MAP_COST, STRUCT_COST
from replay.cel.value.values import EvalError, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def emit_literal(emitter: Emitter, node: ListExpr | MapExpr | StructExpr) -> Code:
    """The code of a literal."""
    match node:
        case ListExpr():
            return _list(emitter, node)
        case MapExpr():
            return _map(emitter, node)
        case StructExpr():
            return _object(emitter, node)


def _list(emitter: Emitter, node: ListExpr) -> Code:
    if node.optional_indices:
        raise NotCompiledError("a list has optional elements")
    emitter.charge(LIST_COST)
    return Code(f"[{', '.join(_element(emitter, element) for element in node.elements)}]", "list")


def _element(emitter: Emitter, node: Expr) -> str:
    code = emitter.emit(node)
    if code.kind == "optional":
        raise NotCompiledError("an optional is an element")
    if emitter.in_object and code.kind == "json":
        return f"{emitter.use('scalar')}({code.text})"
    return code.text


def _map(emitter: Emitter, node: MapExpr) -> Code:
    emitter.charge(MAP_COST)
    entries = []
    for entry in node.entries:
        if entry.optional or not (isinstance(entry.key, Const) and isinstance(entry.key.value, str)):
            raise NotCompiledError("a map has keys that are no texts, or optional entries")
        entries.append(f"{entry.key.value!r}: {_element(emitter, entry.value)}")
    return Code("{" + ", ".join(entries) + "}", "dict")


def _object(emitter: Emitter, node: StructExpr) -> Code:
    emitter.charge(STRUCT_COST)
    outer, emitter.in_object = emitter.in_object, True
    fields = []
    for item in node.fields:
        if item.optional:
            raise NotCompiledError("an object has optional fields")
        fields.append(f"{item.field!r}: {_element(emitter, item.value)}")
    emitter.in_object = outer
    name = emitter.refer("new", _builder(node.type_name, emitter.messages.new_object))
    return Code(f"{name}({{{', '.join(fields)}}})", "object")


def _builder(type_name: str, new_object: Callable[..., Value]) -> Callable[[Mapping[str, Value]], Value]:
    def build(fields: Mapping[str, Value]) -> Value:
        value = new_object(type_name, fields)
        if isinstance(value, EvalError):
            raise value
        return value

    return build
