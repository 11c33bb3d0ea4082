"""Code for folds: the standard macros become loops. A fold of any other shape is left to the strict engine."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from replay.cel.ast import operator
from replay.cel.ast.tree import Call, Comprehension, Const, Expr, Ident, ListExpr, MapExpr
from replay.cel.compiled.emitter import Code, Emitter, NotCompiledError
from replay.cel.compiled.fastpath import LOOP_LIMIT


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


def emit_fold(emitter: Emitter, node: Comprehension) -> Code:
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
