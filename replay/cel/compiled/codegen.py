"""Compiles a checked expression to Python source that works on plain decoded JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from replay.cel.ast import operator
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
from replay.cel.compiled.fastpath import LOOP_LIMIT
from replay.cel.declare.cost import LIST_COST, MAP_COST, STRUCT_COST
from replay.cel.declare.dispatcher import Dispatcher
from replay.cel.value.types import Kind
from replay.cel.value.values import EvalError, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# Code for folds: the standard macros become loops. A fold of any other shape is left to the strict engine.


class FoldShape(Struct, frozen=True):
    """The effect of a fold: `all`, `exists`, `one`, `list`, `map` or `let`, on elements for which `condition` holds."""

    name: str
    body: Expr
    condition: Expr | None = None
    key: Expr | None = None


def shape_of(node: Comprehension) -> FoldShape | None:
    """Return the macro that a fold was expanded from, or None for any other fold (`replay.cel.declare.macros`)."""
    accu, init, step = node.accu_var, node.accu_init, node.loop_step
    # `cel.bind` and composed variables are folds that never run: their accumulator is the variable.
    if isinstance(node.loop_condition, Const) and node.loop_condition.value is False:
        empty = isinstance(node.iter_range, ListExpr) and not node.iter_range.elements
        return FoldShape("let", node.result) if empty else None
    if not isinstance(step, Call):
        return None
    if (
        step.function in (operator.LOGICAL_AND, operator.LOGICAL_OR)
        and _is(step.args[0], accu)
        and _is(node.result, accu)
    ):
        starts_true = step.function == operator.LOGICAL_AND
        if isinstance(init, Const) and init.value is starts_true:
            return FoldShape("all" if starts_true else "exists", step.args[1])
        return None
    condition: Expr | None = None
    if step.function == operator.CONDITIONAL and _is(step.args[2], accu) and isinstance(step.args[1], Call):
        condition, step = step.args[0], step.args[1]
    if _is(node.result, accu):
        return _collecting(node, step, condition)
    counts = isinstance(node.result, Call) and node.result.function == operator.EQUALS and condition is not None
    return FoldShape("one", condition) if counts and step.function == operator.ADD and condition is not None else None


def _is(node: Expr, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def _collecting(node: Comprehension, step: Call, condition: Expr | None) -> FoldShape | None:
    init = node.accu_init
    if (
        step.function == operator.ADD
        and isinstance(init, ListExpr)
        and not init.elements
        and _is(step.args[0], node.accu_var)
    ):
        added = step.args[1]
        if isinstance(added, ListExpr) and len(added.elements) == 1 and not added.optional_indices:
            return FoldShape("list", added.elements[0], condition)
    if step.function == "cel.@mapInsert" and isinstance(init, MapExpr) and not init.entries and len(step.args) == 3:
        return FoldShape("map", step.args[2], condition, step.args[1])
    return None


def _emit_fold(emitter: Emitter, node: Comprehension) -> Code:
    """Return the code of a fold."""
    shape = shape_of(node)
    if shape is None:
        raise NotCompiledError("a fold has an unusual shape")
    return _let(emitter, node) if shape.name == "let" else _Loop(emitter, node, shape).emit()


def _let(emitter: Emitter, node: Comprehension) -> Code:
    """Return the code of `result` with a variable, which becomes a Python variable."""
    value = emitter.emit(node.accu_init)
    name = emitter.temporary(node.accu_var.strip("@"))
    emitter.line(f"{name} = {value.text}")
    emitter.charge(4)
    outer = dict(emitter.scope)
    emitter.scope = {**outer, node.accu_var: Code(name, value.kind, atom=True)}
    result = emitter.emit(node.result)
    emitter.scope = outer
    return result


_START = {"all": "True", "exists": "False", "one": "0", "list": "[]", "map": "{}"}


class _Loop:
    """Writes one loop."""

    def __init__(self, emitter: Emitter, node: Comprehension, shape: FoldShape) -> None:
        self.emitter = emitter
        self.node = node
        self.shape = shape
        self.result = emitter.temporary(shape.name)

    def emit(self) -> Code:
        """Write the statements of the loop and return the name of its result."""
        emitter = self.emitter
        emitter.has_loops = True
        over = emitter.temporary("range")
        emitter.line(f"{over} = {emitter.emit(self.node.iter_range).text}")
        head = self._head(over)
        outer_scope, outer_units = emitter.scope, emitter.units
        # The bound of the body is counted from here on its own: it applies once for each element. A round of a fold costs
        # at most 8 besides: the condition, the accumulator and the step that joins them.
        emitter.scope, emitter.units = {**outer_scope, **head[1]}, 8
        lines, _ = emitter.block(self._body)
        per_element = emitter.units
        emitter.scope, emitter.units = outer_scope, outer_units + 2
        # Charged before the loop and for all elements, although `all` and `exists` may stop early: it is a bound.
        emitter.line(f"spent += {emitter.builtin('len')}({over}) * {per_element}")
        emitter.line(f"if spent > {LOOP_LIMIT}:")
        emitter.line(f"    {emitter.use('leave')}()")
        emitter.line(f"{self.result} = {_START[self.shape.name]}")
        emitter.line(head[0])
        emitter.lines += lines
        if self.shape.name == "one":
            return Code(f"({self.result} == 1)", "bool")
        kind = {"list": "list", "map": "dict"}.get(self.shape.name, "bool")
        return Code(self.result, kind, atom=True)

    def _head(self, over: str) -> tuple[str, dict[str, Code]]:
        emitter, node = self.emitter, self.node
        is_list, is_dict = emitter.is_type(over, "list"), emitter.is_type(over, "dict")
        emitter.line(f"if not ({is_list} or {is_dict}):")
        emitter.line(f"    {emitter.use('leave')}()")
        first = emitter.temporary(node.iter_var)
        if not node.iter_var2:
            return f"for {first} in {over}:", {node.iter_var: Code(first, atom=True)}
        second = emitter.temporary(node.iter_var2)
        pairs = emitter.refer("pairs", _pairs)
        names = {node.iter_var: Code(first, atom=True), node.iter_var2: Code(second, atom=True)}
        return f"for {first}, {second} in {pairs}({over}):", names

    def _body(self) -> Code:
        emitter, shape = self.emitter, self.shape
        if shape.name in ("all", "exists"):
            holds = emitter.truth(emitter.emit(shape.body))
            emitter.line(f"if {'not ' if shape.name == 'all' else ''}{holds}:")
            emitter.line(f"    {self.result} = {shape.name == 'exists'}")
            emitter.line("    break")
        elif shape.name == "one":
            emitter.line(f"if {emitter.truth(emitter.emit(shape.body))}:")
            emitter.line(f"    {self.result} += 1")
        elif shape.condition is None:
            self._collect()
        else:
            emitter.line(f"if {emitter.truth(emitter.emit(shape.condition))}:")
            lines, _ = emitter.block(self._collected)
            emitter.lines += lines
        return Code("None")

    def _collected(self) -> Code:
        self._collect()
        return Code("None")

    def _collect(self) -> None:
        emitter, shape = self.emitter, self.shape
        value = emitter.emit(shape.body)
        # In a list, an optional is a value with a type of its own, which the bare value would not have.
        if value.kind == "optional":
            raise NotCompiledError("an optional is collected")
        emitter.charge(12)
        if shape.key is None:
            # In place, without the look-up of a method; compiled code may not reach attributes.
            emitter.line(f"{self.result} += ({value.text},)")
            return
        key, name = emitter.emit(shape.key), emitter.temporary("key")
        emitter.line(f"{name} = {key.text}")
        # A repeated key is an error with a text; keys 1 and true would be one key of a Python dict.
        emitter.line(f"if not {emitter.is_type(name, 'str')} or {name} in {self.result}:")
        emitter.line(f"    {emitter.use('leave')}()")
        emitter.line(f"{self.result}[{name}] = {value.text}")


def _pairs(value: Any) -> Any:
    """Return indices or keys with their values."""
    return value.items() if isinstance(value, dict) else enumerate(value)


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
    Comprehension: _emit_fold,
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
