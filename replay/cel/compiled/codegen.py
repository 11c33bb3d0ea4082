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

import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from replay.cel.ast.tree import Ast, Call, Comprehension, Const, Expr, Ident, ListExpr, MapExpr, Select, StructExpr
from replay.cel.compiled import fastpath
from replay.cel.compiled.calls import emit_call
from replay.cel.compiled.folds import emit_fold
from replay.cel.compiled.literals import emit_literal
from replay.cel.compiled.pycode import Code, NotCompiledError
from replay.cel.declare.dispatcher import Dispatcher
from replay.cel.value.types import Kind
from replay.cel.value.values import Value

MAX_BOUND = 100_000
"""The greatest bound on the cost of the steps outside of folds with which an expression is compiled."""

_MAX_NODES = 2_000

_BUILTINS = {"len": len, "type": type, "dict": dict, "list": list, "str": str, "int": int, "float": float, "bool": bool}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled expression.

    `function(inputs, variables)` takes the bound names and the policy's variables as mappings of plain values; it returns
    the value, or with `has_loops` the value and what its folds may have cost.
    """

    source: str
    function: Callable[[Mapping[str, Value], Mapping[str, Value]], Any]
    bound: int
    has_loops: bool


class Emitter:
    """Writes the function of one expression."""

    def __init__(self, ast: Ast, dispatcher: Dispatcher, new_object: Callable[..., Value]) -> None:
        """`new_object` builds messages."""
        self.ast = ast
        self.dispatcher = dispatcher
        self.new_object = new_object
        self.lines: list[str] = []
        self.globals: dict[str, Any] = {"__builtins__": {}}
        self.units = 0
        self.has_loops = False
        self.in_object = False
        self.scope: dict[str, Code] = {}
        self._roots: dict[str, str] = {}
        self._indent = 1
        self._count = 0
        self._nodes = 0

    def compile(self) -> Compiled:
        """The function; raises `NotCompiledError`."""
        result = self.emit(self.ast.expr)
        text = f"optional({result.text})" if result.kind == "optional" else result.text
        if result.kind == "optional":
            self.use("optional")
        if self.units > MAX_BOUND:
            raise NotCompiledError("its cost has to be counted")
        body = [f"    {name} = inputs[{root!r}]" for root, name in self._roots.items()]
        if self.has_loops:
            body.append("    spent = 0")
        body += self.lines
        body.append(f"    return {text}, spent" if self.has_loops else f"    return {text}")
        source = "\n".join(["def evaluate(inputs, variables):", *body, ""])
        try:
            exec(compile(source, "<cel>", "exec"), self.globals)  # noqa: S102 - made above from a checked tree
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise NotCompiledError("it is nested too deeply for Python") from error
        return Compiled(source, self.globals["evaluate"], self.units, self.has_loops)

    def emit(self, node: Expr) -> Code:
        """The code of a node; statements that it needs are added to the current block."""
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise NotCompiledError("it is too long")
        match node:
            case Const():
                return self._const(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return emit_call(self, node)
            case Comprehension():
                return emit_fold(self, node)
            case ListExpr() | MapExpr() | StructExpr():
                return emit_literal(self, node)
        raise NotCompiledError(f"no code for {type(node).__name__}")

    def charge(self, units: int) -> None:
        """Add to the bound of the current block."""
        self.units += units

    def use(self, name: str) -> str:
        """A helper of `fastpath`, by its own name."""
        self.globals[name] = getattr(fastpath, name)
        return name

    def refer(self, prefix: str, value: Any) -> str:
        """A name for a value."""
        self._count += 1
        name = f"{prefix}_{self._count}"
        self.globals[name] = value
        return name

    def builtin(self, name: str) -> str:
        """One of the few builtins that compiled code uses."""
        self.globals[name] = _BUILTINS[name]
        return name

    def temporary(self, prefix: str = "t") -> str:
        """A fresh local name; an author's name is kept as a prefix where it is plain."""
        self._count += 1
        plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,30}", prefix) and not keyword.iskeyword(prefix)
        return f"{prefix if plain else 'x'}_{self._count}"

    def atom(self, code: Code) -> tuple[str, str]:
        """`(first, again)`: a text that evaluates and names the value, and one that repeats it."""
        if code.atom:
            return code.text, code.text
        name = self.temporary()
        return f"({name} := {code.text})", name

    def line(self, text: str) -> None:
        """Add a statement."""
        self.lines.append("    " * self._indent + text)

    def block(self, write: Callable[[], Code]) -> tuple[list[str], Code]:
        """The statements and result of code that is written one level deeper."""
        outer, self.lines = self.lines, []
        self._indent += 1
        try:
            code = write()
            return self.lines, code
        finally:
            self._indent -= 1
            self.lines = outer

    def truth(self, code: Code) -> str:
        """The code as a bool."""
        if code.kind == "bool":
            return code.text
        if code.kind != "json":
            raise NotCompiledError("a condition is no bool")
        return f"{self.use('truth')}({code.text})"

    def is_type(self, name: str, python_type: str) -> str:
        """A guard."""
        return f"{self.builtin('type')}({name}) is {self.builtin(python_type)}"

    def static_kind(self, node: Expr) -> Kind:
        """The kind of a node's checked type."""
        return self.ast.type_map[node.id].kind

    def is_optional(self, node: Expr) -> bool:
        """Whether a node's checked type is an optional."""
        return self.ast.type_map[node.id].name == "optional_type"

    def _const(self, value: Value) -> Code:
        if value is None:
            return Code("None", "json", atom=True)
        if value is True or value is False:
            return Code(repr(value), "bool", atom=True)
        if type(value) is int:
            return Code(repr(value) if value >= 0 else f"({value})", "int", atom=True)
        if type(value) is str:
            return Code(repr(value), "str", atom=True)
        return Code(self.refer("constant", value), "json", atom=True)

    def _ident(self, node: Ident) -> Code:
        if node.name in self.scope:
            self.charge(1)
            return self.scope[node.name]
        reference = self.ast.reference_map[node.id]
        return self._reference(node, reference.name, is_constant=reference.is_constant, value=reference.value)

    def _reference(self, node: Expr, name: str, *, is_constant: bool, value: Value) -> Code:
        if is_constant:
            return self._const(value)
        if self.static_kind(node) is Kind.TYPE or name.startswith(".") or name == "variables":
            raise NotCompiledError(f"`{name}` is read in an unusual way")
        self.charge(1)
        if name not in self._roots:
            self._roots[name] = self.temporary(name.replace(".", "_"))
        return Code(self._roots[name], "json", atom=True)

    def _select(self, node: Select) -> Code:
        reference = self.ast.reference_map.get(node.id)
        if reference is not None:
            return self._reference(node, reference.name, is_constant=reference.is_constant, value=reference.value)
        if isinstance(node.operand, Ident) and node.operand.name == "variables" and "variables" not in self.scope:
            return self._variable(node)
        if self.ast.type_map[node.operand.id].name.partition(".")[0] in ("Object", "JSONPatch"):
            raise NotCompiledError("it reads a field of a new object")
        self.charge(2)
        operand = self.emit(node.operand)
        if self.is_optional(node.operand):
            if node.test_only:
                raise NotCompiledError("it tests an optional for a field")
            return Code(f"{self.use('part')}({operand.text}, {node.field!r})", "optional")
        if not node.test_only:
            return Code(f"{operand.text}[{node.field!r}]")
        first, again = self.atom(operand)
        return Code(f"({node.field!r} in {again} if {self.is_type(first, 'dict')} else {self.use('leave')}())", "bool")

    def _variable(self, node: Select) -> Code:
        if node.test_only or self.is_optional(node):
            raise NotCompiledError("it asks whether a variable exists")
        self.charge(2)
        return Code(f"variables[{node.field!r}]")


def compile_expression(ast: Ast, dispatcher: Dispatcher, new_object: Callable[..., Value]) -> Compiled:
    """The compiled form of a checked expression; raises `NotCompiledError` where only the strict engine will do."""
    return Emitter(ast, dispatcher, new_object).compile()
