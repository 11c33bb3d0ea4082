"""`replay.cel.compile`: an expression as an API server compiles and evaluates it."""

from __future__ import annotations

from typing import Any

from replay.admission.validating.evaluation import RUNTIME_BUDGET
from replay.cel.value.equality import elements, find, is_list, is_map, map_keys
from replay.cel.value.text import type_text
from replay.cel.value.values import OptionalValue, Value
from replay.cellib.composition import Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.tagged import shown
from replay.cellib.version import KubernetesVersion
from replay.errors import ReplayError
from replay.json import JSON
from replay.pipeline.cel import bindings_of
from replay.pipeline.version import version_of


class CompileError(ReplayError):
    """An error of a CEL expression that does not compile, with the server's message and its position."""


class EvaluationError(ReplayError):
    """An error of an evaluation that fails or lacks an input, with the server's message."""


class Expression:
    """A compiled CEL expression. `compile` makes one."""

    def __init__(self, compiled: CompiledExpression, compiler: ExpressionCompiler, version: KubernetesVersion) -> None:
        """Use `replay.cel.compile`."""
        self._compiled, self._compiler, self._version = compiled, compiler, version

    @property
    def type(self) -> str:
        """The type of the result in CEL's notation, such as `bool` or `list(string)`."""
        assert self._compiled.output_type is not None
        return type_text(self._compiled.output_type)

    @property
    def reads(self) -> tuple[str, ...]:
        """The paths that the expression reads, such as `object.spec.replicas`."""
        return tuple(sorted(self._compiled.footprint))

    def evaluate(self, **documents: JSON) -> Any:
        """Return the value as plain Python: numbers, texts, lists and dictionaries. A value without a JSON form is a text, as in CEL.

        `documents` are variables by name: `object`, `oldObject`, `request`, `params`, `namespaceObject`. Raises EvaluationError.
        """
        bindings = bindings_of({"vars": documents}, self._version)
        evaluated = Evaluation(self._compiler, bindings, RUNTIME_BUDGET, exact=True).evaluate(self._compiled)
        if evaluated.unknown:
            raise EvaluationError("undetermined: " + "; ".join(missing.reason for missing in evaluated.unknown))
        if evaluated.error is not None:
            raise EvaluationError(evaluated.error)
        return _plain(evaluated.value)


def compile_expression(expression: str, *, kind: str = "variable", kubernetes_version: str | None = None) -> Expression:
    """Compile an expression for a place in a policy: `variable` (any type), `validation`, `matchCondition`, ...

    Raises CompileError with the server's text, and ReplayError for an unknown kind or version.
    """
    version = version_of(kubernetes_version)
    try:
        place = ExpressionKind(kind)
    except ValueError as error:
        raise ReplayError(f"no kind `{kind}`: one of {', '.join(ExpressionKind)}") from error
    compiler = ExpressionCompiler(version, has_params=True)
    compiled = compiler.compile(place, expression)
    if compiled.program is None:
        raise CompileError(str(compiled.error))
    return Expression(compiled, compiler, version)


def _plain(value: Value) -> Any:
    """Return a CEL value as plain Python."""
    if value is None or isinstance(value, bool | str | bytes | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, OptionalValue):
        return _plain(value.value) if value.has_value else None
    if is_list(value):
        return [_plain(item) for item in elements(value)]
    if is_map(value):
        return {_plain(key): _plain(find(value, key)[1]) for key in map_keys(value)}
    return shown(value)
