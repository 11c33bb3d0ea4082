"""Compiled expressions of one policy, with Kyverno's error texts (`pkg/cel/compiler/compiler.go`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from replay.cel.ast import operator
from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.issues import Issues
from replay.cel.ast.tree import Expr
from replay.cel.declare.library import Function, Library, Overload, VariableDecl
from replay.cel.declare.macros import Macro, receiver
from replay.cel.env import Env
from replay.cel.program import Program
from replay.cel.strict.folding import PlanError
from replay.cel.value.types import BOOL, DYN, NULL, STRING, Type, list_type, struct_type
from replay.cel.value.values import OptionalValue, Value
from replay.cellib.declared_type import NAMESPACE_TYPE, REQUEST_TYPE, STRUCT_FIELDS
from replay.cellib.environment import SCALAR_FIELDS, SCALAR_NAMES, VARIABLES, ExpressionKind, base_env
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.library.encoders import ENCODERS, JSON_ENCODER
from replay.cellib.library.macros import BINDINGS, PROTOS
from replay.cellib.library.math import MATH
from replay.cellib.library.mutation import MUTATION
from replay.cellib.library.regex import REGEX_EXTENSION
from replay.cellib.variables import VariableValues
from replay.cellib.version import KubernetesVersion
from replay.go.format import aggregate, quote
from replay.kube.admissionregistration import MatchCondition, Variable
from replay.kyverno.cel.library.context import context_library, generator_library
from replay.kyverno.cel.library.data import DATA, MOMENT
from replay.kyverno.cel.library.image import IMAGE, NATIVE

# CEL environment of Kyverno's policies (`pkg/cel/compiler/env.go`, `pkg/cel/policies/{vpol,mpol}/compiler`).
# It is the environment of the API server that Kyverno 1.19 is built with, plus more of cel-go and Kyverno's own libraries.

VERSION: Final = KubernetesVersion(1, 36)
"""Version of the libraries that Kyverno is built with (`k8s.io/apiserver` 0.36)."""

_CODE: Final = KubernetesVersion(1, 37)
"""API server version with Kyverno's cel-go, which is newer than the cel-go of Kyverno's `k8s.io/apiserver`."""

_VARIABLES_TYPE: Final = struct_type("kyverno.variables")


def _or_value(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    return factory.call(operator.OR_VALUE_EAGERLY, receiver(target), args[0])


def _value_or(value: Value, other: Value) -> Value:
    """Return the value of an optional, the alternative for an empty one, or any other value unchanged."""
    if isinstance(value, OptionalValue):
        return value.value if value.has_value else other
    return value


_OR_VALUE = Library(
    name="kyverno.orvalue",
    functions=(
        Function(
            operator.OR_VALUE_EAGERLY,
            (Overload("__orValueCompat___dyn_dyn", (DYN, DYN), DYN, implementation=_value_or),),
        ),
    ),
    macros=(Macro("orValue", (1,), _or_value),),
)
"""`orValue` for values of any type, with a dynamic result (`OrValueCompatEnvOptions`)."""


class Purpose(Enum):
    """Purpose of a policy, which determines its environment."""

    VALIDATE = "validate"
    MUTATE = "mutate"
    GENERATE = "generate"


def _kyverno_env(namespace: str, variables: Mapping[str, Type], purpose: Purpose) -> Env:
    """Return the environment of a policy.

    `namespace` is empty for cluster-wide policies. `variables` maps the declared variables to their types.
    """
    return _env(namespace, tuple(variables.items()), purpose)


@lru_cache(maxsize=1024)
def _env(namespace: str, variables: tuple[tuple[str, Type], ...], purpose: Purpose) -> Env:
    more = [
        BINDINGS,
        ENCODERS,
        JSON_ENCODER,
        PROTOS,
        MATH,
        REGEX_EXTENSION,
        _OR_VALUE,
        NATIVE,
        IMAGE,
        DATA,
        MOMENT,
        context_library(namespace),
    ]
    if purpose is Purpose.GENERATE:
        # Lists and maps of objects to be made are of any types.
        more.append(generator_library(namespace))
        return base_env(_CODE, VERSION, _declarations(variables), *more, validates=False)
    return base_env(_CODE, VERSION, _declarations(variables), *more, *([MUTATION] if purpose is Purpose.MUTATE else []))


def _declarations(variables: tuple[tuple[str, Type], ...]) -> Library:
    """Return the declarations for policies. Unlike on the API server, `request` also has the objects."""
    declared = {"object": DYN, "oldObject": DYN, "namespaceObject": NAMESPACE_TYPE, "request": REQUEST_TYPE}
    request = {**STRUCT_FIELDS[REQUEST_TYPE.name], "object": DYN, "oldObject": DYN}
    return Library(
        name="kyverno.admission",
        variables=(
            *(VariableDecl(name, type_) for name, type_ in declared.items()),
            VariableDecl(VARIABLES, _VARIABLES_TYPE, is_lazy=True),
        ),
        struct_fields={
            **SCALAR_FIELDS,
            **STRUCT_FIELDS,
            REQUEST_TYPE.name: request,
            _VARIABLES_TYPE.name: dict(variables),
        },
        aliases=SCALAR_NAMES,
    )


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
        """Join the errors as the API machinery does."""
        self.errors = list(dict.fromkeys(errors))
        super().__init__(aggregate(self.errors))


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
        return _kyverno_env(self._namespace, self._types, self._purpose)

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
            if compiled.output_type is not None:  # checked, although it may be no program
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
