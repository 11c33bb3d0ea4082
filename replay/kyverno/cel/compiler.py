"""Compiled expressions of one policy, with Kyverno's error texts (`pkg/cel/compiler/compiler.go`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from replay.cel.ast.issues import Issues
from replay.cel.env import Env
from replay.cel.program import Program
from replay.cel.strict.folding import PlanError
from replay.cel.value.types import BOOL, DYN, NULL, STRING, Type, list_type, struct_type
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.variables import VariableValues
from replay.go.format import quote
from replay.kube.admissionregistration import MatchCondition, Variable
from replay.kyverno.cel.environment import VERSION, Purpose, kyverno_env

_EXPECTED: dict[ExpressionKind, tuple[Type, ...]] = {
    ExpressionKind.VALIDATION: (BOOL,),
    ExpressionKind.MESSAGE_EXPRESSION: (STRING,),
    ExpressionKind.AUDIT_ANNOTATION: (STRING, NULL),
    ExpressionKind.APPLY_CONFIGURATION: (struct_type("Object"),),
    ExpressionKind.JSON_PATCH: (list_type(struct_type("JSONPatch")),),
}


class PolicyError(Exception):
    """Policy that Kyverno refuses. `str()` is the message."""

    def __init__(self, errors: Iterable[str]) -> None:
        """Join the errors as the API machinery does (`Aggregate.Error`): duplicates once, several in brackets."""
        distinct = list(dict.fromkeys(errors))
        super().__init__(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")
        self.errors = distinct


class _Values(VariableValues):
    """Values of `variables`. The error of a variable is passed on unchanged."""

    __slots__ = ()

    def error_text(self, name: str, error: str) -> str:  # noqa: ARG002 - the name is not told
        """Return the error of the variable."""
        return error


class _Compilation(NamedTuple):
    program: Program | None
    output_type: Type | None
    error: str | None


class PolicyCompiler(ExpressionCompiler):
    """Compiler for the expressions of one policy. An expression sees the variables declared before it."""

    variable_values = _Values

    def __init__(self, namespace: str, purpose: Purpose) -> None:
        """`namespace` is the namespace of the policy, empty for cluster-wide policies."""
        super().__init__(VERSION, has_params=False)
        self._namespace = namespace
        self._purpose = purpose

    def declared_type(self, output: Type | None) -> Type:
        """Return the type of a variable: that of its expression."""
        return DYN if output is None else output

    def compile(self, kind: ExpressionKind, expression: str) -> CompiledExpression:
        """Compile an expression."""
        return self.compiled_here(kind, expression)

    def compiled_here(self, kind: ExpressionKind, expression: str) -> CompiledExpression:
        """Compile an expression. `error` is Kyverno's text, without the path."""
        program, output_type, error = _compile(self._env(kind), expression)
        expected = _EXPECTED.get(kind)
        if error is None and expected is not None and output_type not in expected:
            error = _wrong_type(expected)
        # What an expression sees does not depend on its kind; only the results of mutations are kept as they were made.
        seen_as = kind if kind.is_mutation else ExpressionKind.VALIDATION
        if error is not None or program is None:
            return CompiledExpression(seen_as, expression, self, None, error, output_type)
        return CompiledExpression(seen_as, expression, self, program, None, output_type, self._footprint(program))

    def _env(self, kind: ExpressionKind) -> Env:  # noqa: ARG002 - the same for all
        return kyverno_env(self._namespace, self._types, self._purpose)

    def checked(self, path: str, kind: ExpressionKind, expression: str) -> CompiledExpression:
        """Return the compiled expression at a path. Raises PolicyError."""
        compiled = self.compile(kind, expression)
        if compiled.error is not None:
            raise PolicyError([_invalid(path, compiled)])
        return compiled

    def all_checked(
        self, kind: ExpressionKind, expressions: Iterable[tuple[str, str]]
    ) -> tuple[CompiledExpression, ...]:
        """Return compiled expressions, given with their paths. Raises PolicyError with all their errors."""
        compiled = [(path, self.compile(kind, expression)) for path, expression in expressions]
        errors = [_invalid(path, each) for path, each in compiled if each.error is not None]
        if errors:
            raise PolicyError(errors)
        return tuple(each for _, each in compiled)

    def conditions(self, path: str, conditions: Sequence[MatchCondition]) -> tuple[CompiledExpression, ...]:
        """Return compiled match conditions. Raises PolicyError with all their errors."""
        expressions = ((f"{path}[{index}].expression", each.expression) for index, each in enumerate(conditions))
        return self.all_checked(ExpressionKind.VALIDATION, expressions)

    def declare(self, path: str, variables: Sequence[Variable]) -> None:
        """Compile and declare variables, each of which sees the ones before it.

        Raises PolicyError with all their errors.
        """
        errors: list[str] = []
        for index, variable in enumerate(variables):
            compiled = self.compile(ExpressionKind.VARIABLE, variable.expression)
            if compiled.error is not None:
                errors.append(_invalid(f"{path}[{index}].expression", compiled))
            else:
                self.declare_variable(variable.name, variable.expression)
        if errors:
            raise PolicyError(errors)


def _invalid(path: str, compiled: CompiledExpression) -> str:
    return f"{path}: Invalid value: {quote(compiled.expression)}: {compiled.error}"


def _wrong_type(expected: tuple[Type, ...]) -> str:
    names = [each.name for each in expected]
    if len(names) == 1:
        return f"output is expected to be of type {names[0]}"
    return f"output is expected to be either of type {' or '.join(names)}"


@lru_cache(maxsize=65536)
def _compile(env: Env, expression: str) -> _Compilation:
    """Compile an expression. Equal texts in equal environments share the result."""
    ast = env.compile(expression)
    if isinstance(ast, Issues):
        return _Compilation(None, None, ast.to_display_string())
    output_type = ast.type_map[ast.expr.id]
    try:
        return _Compilation(env.program(ast), output_type, None)
    except PlanError as error:
        return _Compilation(None, output_type, error.message)
