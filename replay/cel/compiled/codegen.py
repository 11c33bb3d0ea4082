"""Compiles a checked expression to Python source over plain decoded JSON.

The code is a pure function of the tree. It answers the usual case, inline, and raises for all else: a missing key is a
`KeyError`, a wrong type a `TypeError` or a guard that calls `leave()`; the strict engine then evaluates the expression
again and alone decides about errors. That keeps three promises cheap: a compiled result always equals the strict one,
errors and unknowns are absorbed in one place, and nothing needs to be counted. Order of evaluation is free for the same
reason; what `&&`, `||` and `?:` guard stays guarded because evaluating it would leave for nothing.

**Cost.** Each step has an upper bound, given that no text or list is longer than `fastpath.LONG` where its length
matters (helpers leave if it is). `Compiled.bound` is the sum over all steps outside of folds, at most `MAX_BOUND`. A fold
adds its bound per element times the number of elements to `spent` and leaves past `fastpath.LOOP_LIMIT`. Both are far
below the limit of one expression, so it cannot have been exceeded where compiled code answers.

**Safety.** Names in the source are made here: an author's name appears only behind a suffix, texts only as `repr` of a
literal, everything else by reference. The code runs without builtins and reaches no attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

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
from replay.cel.compiled.emitter import Emitter, MessageProvider, NodeWriters
from replay.cel.compiled.folds import emit_fold
from replay.cel.compiled.literals import emit_literal
from replay.cel.compiled.pycode import Code, NotCompiledError
from replay.cel.declare.dispatcher import Dispatcher
from replay.cel.value.types import Kind
from replay.cel.value.values import Value

MAX_BOUND = 100_000
"""The greatest bound on the cost of the steps outside of folds with which an expression is compiled."""


class Compiled(Struct, frozen=True):
    """A compiled expression.

    `function(inputs, lazy)` takes the bound names and the entries of the lazy map as mappings of plain values; it returns
    the value, or with `has_loops` the value and what its folds may have cost.
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
    ListExpr: emit_literal,
    MapExpr: emit_literal,
    StructExpr: emit_literal,
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
    """The compiled form of a checked expression; raises `NotCompiledError` where only the strict engine will do."""
    return _function(Emitter(ast, dispatcher, messages, _WRITERS))
