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
    """An expression does not compile; the message is the server's, with its place."""


class EvaluationError(ReplayError):
    """An evaluation fails or lacks an input; the message is the server's."""


class Expression:
    """A compiled expression; `compile` makes one."""

    def __init__(self, compiled: CompiledExpression, compiler: ExpressionCompiler, version: KubernetesVersion) -> None:
        """Use `replay.cel.compile`."""
        self._compiled, self._compiler, self._version = compiled, compiler, version

    @property
    def type(self) -> str:
        """The type of the result, as CEL writes it: `bool`, `list(string)`."""
        assert self._compiled.output_type is not None
        return type_text(self._compiled.output_type)

    @property
    def reads(self) -> tuple[str, ...]:
        """The paths that it reads: `object.spec.replicas`."""
        return tuple(sorted(self._compiled.footprint))

    def evaluate(self, **documents: JSON) -> Any:
        """The value, as plain Python: numbers, texts, lists, dictionaries; what JSON has no form for is a text as in CEL.

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

    Raises CompileError with the server's text, and ReplayError for a kind or version that there is not.
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
    """A CEL value as plain Python."""
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
