"""Compiles a checked expression to Python source that works on plain decoded JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from replay.cel.ast.tree import (
    Ast,
    Call,
    Comprehension,
    Const,
    Expr,
    Ident,
    ListExpr,
    MapExpr,
    Reference,
    Select,
    StructExpr,
)
from replay.cel.compiled.calls import emit_call
from replay.cel.compiled.emitter import Code, Emitter, MessageProvider, NodeWriters, NotCompiledError
from replay.cel.compiled.folds import emit_fold
from replay.cel.declare.cost import LIST_COST, MAP_COST, STRUCT_COST
from replay.cel.declare.dispatcher import Dispatcher
from replay.cel.value.types import Kind
from replay.cel.value.values import EvalError, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _emit_literal(emitter: Emitter, node: ListExpr | MapExpr | StructExpr) -> Code:
    """Return the code of a literal."""
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


MAX_BOUND = 100_000
"""An expression is compiled only if the cost of its steps outside of folds cannot exceed this."""


class Compiled(Struct, frozen=True):
    """A compiled expression.

    `function(inputs, lazy)` takes the bound names and the entries of the lazy map as mappings of plain values. It
    returns the value, or with `has_loops` the value and an upper bound for the cost of its folds.
    """

    source: str
    function: Callable[[Mapping[str, Value], Mapping[str, Value]], Any]
    bound: int
    has_loops: bool


def _const(emitter: Emitter, value: Value) -> Code:
    if value is None:
        return Code("None", "json", atom=True)
    if value is True or value is False:
        return Code(repr(value), "bool", atom=True)
    if type(value) is int:
        return Code(repr(value) if value >= 0 else f"({value})", "int", atom=True)
    if type(value) is str:
        return Code(repr(value), "str", atom=True)
    return Code(emitter.refer("constant", value), "json", atom=True)


def _ident(emitter: Emitter, node: Ident) -> Code:
    if node.name in emitter.scope:
        emitter.charge(1)
        return emitter.scope[node.name]
    reference = emitter.ast.reference_map[node.id]
    return _reference(emitter, node, reference)


def _reference(emitter: Emitter, node: Expr, reference: Reference) -> Code:
    name = reference.name
    if reference.is_constant:
        return _const(emitter, reference.value)
    if emitter.static_kind(node) is Kind.TYPE or name.startswith(".") or name == emitter.messages.lazy_map:
        raise NotCompiledError(f"`{name}` is read in an unusual way")
    emitter.charge(1)
    if name not in emitter.roots:
        emitter.roots[name] = emitter.temporary(name.replace(".", "_"))
    return Code(emitter.roots[name], "json", atom=True)


def _select(emitter: Emitter, node: Select) -> Code:
    reference = emitter.ast.reference_map.get(node.id)
    if reference is not None:
        return _reference(emitter, node, reference)
    lazy = emitter.messages.lazy_map
    if isinstance(node.operand, Ident) and node.operand.name == lazy and lazy not in emitter.scope:
        return _lazy_entry(emitter, node)
    if emitter.messages.is_built(emitter.ast.type_map[node.operand.id].name):
        raise NotCompiledError("it reads a field of a new object")
    emitter.charge(2)
    operand = emitter.emit(node.operand)
    if emitter.is_optional(node.operand):
        if node.test_only:
            raise NotCompiledError("it tests an optional for a field")
        return Code(f"{emitter.use('part')}({operand.text}, {node.field!r})", "optional")
    if not node.test_only:
        return Code(f"{operand.text}[{node.field!r}]")
    first, again = emitter.atom(operand)
    return Code(
        f"({node.field!r} in {again} if {emitter.is_type(first, 'dict')} else {emitter.use('leave')}())", "bool"
    )


def _lazy_entry(emitter: Emitter, node: Select) -> Code:
    if node.test_only or emitter.is_optional(node):
        raise NotCompiledError("it asks whether a variable exists")
    emitter.charge(2)
    return Code(f"{emitter.messages.lazy_map}[{node.field!r}]")


_WRITERS: Final[NodeWriters] = {
    Const: lambda emitter, node: _const(emitter, node.value),
    Ident: _ident,
    Select: _select,
    Call: emit_call,
    Comprehension: emit_fold,
    ListExpr: _emit_literal,
    MapExpr: _emit_literal,
    StructExpr: _emit_literal,
}


def _function(emitter: Emitter) -> Compiled:
    result = emitter.emit(emitter.ast.expr)
    text = f"optional({result.text})" if result.kind == "optional" else result.text
    if result.kind == "optional":
        emitter.use("optional")
    if emitter.units > MAX_BOUND:
        raise NotCompiledError("its cost has to be counted")
    body = [f"    {name} = inputs[{root!r}]" for root, name in emitter.roots.items()]
    if emitter.has_loops:
        body.append("    spent = 0")
    body += emitter.lines
    body.append(f"    return {text}, spent" if emitter.has_loops else f"    return {text}")
    lazy = emitter.messages.lazy_map or "_"
    source = "\n".join([f"def evaluate(inputs, {lazy}):", *body, ""])
    try:
        exec(compile(source, "<cel>", "exec"), emitter.globals)  # noqa: S102 - made above from a checked tree
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise NotCompiledError("it is nested too deeply for Python") from error
    return Compiled(source, emitter.globals["evaluate"], emitter.units, emitter.has_loops)


def compile_expression(ast: Ast, dispatcher: Dispatcher, messages: MessageProvider) -> Compiled:
    """Return the compiled form of a checked expression.

    Raises `NotCompiledError` if only the strict engine can evaluate it.
    """
    return _function(Emitter(ast, dispatcher, messages, _WRITERS))
