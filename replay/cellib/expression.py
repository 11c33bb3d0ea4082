"""Compiled expressions of one policy (apiserver `pkg/admission/plugin/cel/compile.go`, `composition.go`).

Variables are compiled in order, and each sees those before it. Equal expressions of all policies are one object, if the
variables that they read are equal too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from replay.cel.ast import operator
from replay.cel.ast.footprint import LazyMap, Reads, trace_of
from replay.cel.ast.issues import Issues
from replay.cel.ast.tree import Call, Expr
from replay.cel.ast.walk import shape_of
from replay.cel.env import Env
from replay.cel.program import Program
from replay.cel.release import with_type_names
from replay.cel.strict.folding import PlanError
from replay.cel.value.text import type_text
from replay.cel.value.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Kind,
    Type,
    list_type,
    map_type,
    struct_type,
)
from replay.cellib.activation import Views
from replay.cellib.environment import VARIABLES, ExpressionKind, admission_env
from replay.cellib.variables import VariableValues
from replay.cellib.version import KubernetesVersion

_RESULT_TYPES: dict[ExpressionKind, tuple[Type, ...]] = {
    ExpressionKind.VALIDATION: (BOOL,),
    ExpressionKind.MATCH_CONDITION: (BOOL,),
    ExpressionKind.MESSAGE_EXPRESSION: (STRING,),
    ExpressionKind.AUDIT_ANNOTATION: (STRING, NULL),
    ExpressionKind.APPLY_CONFIGURATION: (struct_type("Object"),),
    ExpressionKind.JSON_PATCH: (list_type(struct_type("JSONPatch")),),
}
"""Types that an expression of a kind may have. A kind that is absent allows any type."""

_KEPT = frozenset({ANY, BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT})

_VARIABLE = re.compile(rf"\b{VARIABLES}\.([A-Za-z_][A-Za-z0-9_]*)")
_MOST_DISJUNCTS = 64


class CompiledExpression(Struct, frozen=True, eq=False, dict=True):
    """An expression of a policy: a program, or the exact reason why there is none.

    `footprint` are the paths that it may read, including those of its variables: `{"object.spec.containers[].image",
    ...}`. `compiler` has these variables, but maybe no others of the policy.
    """

    kind: ExpressionKind
    expression: str
    compiler: ExpressionCompiler
    program: Program | None
    error: str | None
    output_type: Type | None
    footprint: frozenset[str] = frozenset()
    is_internal_error: bool = False
    """Whether the server reports the error as an internal one."""

    @cached_property
    def disjuncts(self) -> tuple[CompiledExpression, ...]:
        """The operands of `||`, if an earlier expression has one of them too. Otherwise empty.

        If any of them is true, the expression is true. If all are false, it is false.
        """
        return self.compiler.disjuncts(self)


class ExpressionCompiler:
    """Compiler of the expressions of one policy, for a server of one version."""

    variable_values: type[VariableValues] = VariableValues
    """Class of the value of `variables`."""

    def __init__(
        self,
        version: KubernetesVersion,
        *,
        has_params: bool,
        composed: bool = True,
        compatible: KubernetesVersion | None = None,
    ) -> None:
        """`has_params` declares `params`. Without `composed` there are no `variables`.

        `compatible` is the version of the libraries for new expressions. None means the server's own.
        """
        self._composed = composed
        self._compatible = compatible
        self._version = version
        self._has_params = has_params
        self.views = Views.for_server(version)
        self._types: dict[str, Type] = {}
        self._traces: dict[str, Reads] = {}
        self._is_redeclared = False
        self._operands: dict[object, CompiledExpression | None] = {}
        self.variables: dict[str, CompiledExpression] = {}

    def type_text(self, type_: Type) -> str:
        """Return a type as the server prints it."""
        return with_type_names(type_text(type_), self._version.cel_go)

    def declare_variable(self, name: str, expression: str) -> CompiledExpression:
        """Compile a variable for later expressions. If it does not compile, its readers fail."""
        # apiserver (mutating/compilation.go): variables of a mutating policy do not see `Object` and `JSONPatch` either.
        compiled = self.compile(ExpressionKind.VARIABLE, expression)
        self._is_redeclared = self._is_redeclared or name in self._types
        self._types = {**self._types, name: self.declared_type(compiled.output_type)}
        if compiled.program is not None:
            self._traces[name] = trace_of(compiled.program.ast, LazyMap(VARIABLES, self._traces))
        self.variables[name] = compiled
        return compiled

    def declared_type(self, output: Type | None) -> Type:
        """Return the type under which a variable is declared."""
        return declared_type(output)

    def compile(self, kind: ExpressionKind, expression: str) -> CompiledExpression:
        """Compile an expression of a kind. It sees the variables declared so far."""
        # Of two variables of one name, the text does not tell which one is read.
        if self._is_redeclared:
            return self.compiled_here(kind, expression)
        # Only these variables belong to the key of the cache, so that policies share expressions although others
        # differ.
        needed = self.variables_of(expression)
        variables = tuple((name, each.expression) for name, each in self.variables.items() if name in needed)
        return _compiled(self._version, self._has_params, self._composed, self._compatible, variables, kind, expression)

    def variables_of(self, expression: str) -> set[str]:
        """Return the variables that an expression may read, directly or through others.

        All of them if the expression does not name them plainly.
        """
        needed: set[str] = set()
        pending = [expression]
        while pending:
            text = pending.pop()
            names = _VARIABLE.findall(text)
            # The text may name a variable indirectly or by an escaped name, which the pattern does not find.
            if text.count(VARIABLES) != len(names) or any("__" in name for name in names):
                return set(self.variables)
            more = (self.variables.keys() & names) - needed
            needed |= more
            pending += [self.variables[name].expression for name in more]
        return needed

    def compiled_here(self, kind: ExpressionKind, expression: str) -> CompiledExpression:
        """Return an expression that sees all variables declared so far, without sharing."""
        program, output_type, error, is_internal = compile_expression(self._env(kind), self._version, kind, expression)
        footprint = frozenset[str]() if program is None else self._footprint(program)
        return CompiledExpression(kind, expression, self, program, error, output_type, footprint, is_internal)

    def _env(self, kind: ExpressionKind) -> Env:
        return admission_env(
            self._version,
            kind,
            has_params=self._has_params,
            variables=self._types if self._composed else None,
            compatible=self._compatible,
        )

    def _footprint(self, program: Program) -> frozenset[str]:
        return trace_of(program.ast, LazyMap(VARIABLES, self._traces)).footprint

    def disjuncts(self, compiled: CompiledExpression) -> tuple[CompiledExpression, ...]:
        """See `CompiledExpression.disjuncts`."""
        if compiled.program is None:
            return ()
        operands = list(_disjuncts(compiled.program.ast.expr))
        if not 1 < len(operands) <= _MOST_DISJUNCTS:
            return ()
        shapes = [(compiled.kind, shape_of(each, lambda _node, _bound: None)) for each in operands]
        is_shared = any(shape in self._operands for shape in shapes)
        for shape in shapes:
            # None notes that the operand was seen once. It gets an object of its own only if it is seen again.
            self._operands.setdefault(shape, None)
        if not is_shared:
            return ()
        return tuple(self._disjunct(compiled, shape, each) for shape, each in zip(shapes, operands, strict=True))

    def _disjunct(self, compiled: CompiledExpression, shape: object, operand: Expr) -> CompiledExpression:
        """Return an operand as an expression of its own. Equal operands are the same object."""
        disjunct = self._operands[shape]
        if disjunct is None:
            assert compiled.program is not None
            ast = replace(compiled.program.ast, expr=operand)
            program = self._env(compiled.kind).program(ast)
            footprint = self._footprint(program)
            disjunct = CompiledExpression(compiled.kind, "", self, program, None, BOOL, footprint)
            self._operands[shape] = disjunct
        return disjunct


def _disjuncts(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and node.function == operator.LOGICAL_OR:
        for each in node.args:
            yield from _disjuncts(each)
    else:
        yield node


@lru_cache(maxsize=65536)
def _compiled(  # noqa: PLR0913, PLR0917 - what an expression means
    version: KubernetesVersion,
    has_params: bool,
    composed: bool,
    compatible: KubernetesVersion | None,
    variables: tuple[tuple[str, str], ...],
    kind: ExpressionKind,
    expression: str,
) -> CompiledExpression:
    """Return an expression that reads these variables, by name and expression. Equal ones are the same object."""
    return _compiler(version, has_params, composed, compatible, variables).compiled_here(kind, expression)


@lru_cache(maxsize=8192)
def _compiler(
    version: KubernetesVersion,
    has_params: bool,
    composed: bool,
    compatible: KubernetesVersion | None,
    variables: tuple[tuple[str, str], ...],
) -> ExpressionCompiler:
    """Return the compiler of expressions that read these variables."""
    compiler = ExpressionCompiler(version, has_params=has_params, composed=composed, compatible=compatible)
    for name, expression in variables:
        compiler.declare_variable(name, expression)
    return compiler


class Compilation(NamedTuple):
    """A program and its type, or the server's error text (apiserver `cel.Error`), internal or the author's."""

    program: Program | None
    output_type: Type | None
    error: str | None = None
    is_internal_error: bool = False


@lru_cache(maxsize=65536)
def compile_expression(env: Env, server: KubernetesVersion, kind: ExpressionKind, expression: str) -> Compilation:
    """Compile an expression of a kind. Equal texts in equal environments are compiled once."""
    ast = env.compile(expression)
    if isinstance(ast, Issues):
        return Compilation(None, None, f"compilation failed: {ast.to_display_string()}")
    output_type = ast.type_map[ast.expr.id]
    expected = _RESULT_TYPES.get(kind)
    if expected is not None and output_type not in expected:
        names = " ".join(map(type_text, expected))
        required = names if len(expected) == 1 else f"one of [{names}]"
        got = f" but got {type_text(output_type)}" if server.minor >= 32 else ""
        return Compilation(None, None, f"must evaluate to {required}{got}")
    if any(type_.kind is Kind.UNKNOWN for type_ in ast.type_map.values()):
        # A field that a message does not have, selected: the server cannot write down its type.
        text = "unexpected compilation error: missing type conversion to proto: "
        return Compilation(None, None, text, is_internal_error=True)
    try:
        return Compilation(env.program(ast), output_type)
    except PlanError as error:
        return Compilation(None, None, f"program instantiation failed: {error.message}", is_internal_error=True)


def declared_type(output: Type | None) -> Type:
    """Return the type under which a variable is declared.

    Opaque, optional and message types become dyn (`convertCelTypeToDeclType`).
    """
    if output is None:
        return DYN
    if output in _KEPT:
        return output
    if output.kind is Kind.LIST:
        return list_type(declared_type(output.parameters[0]))
    if output.kind is Kind.MAP:
        return map_type(*map(declared_type, output.parameters))
    return DYN
