"""The CEL expressions of one object, compiled as its validation does, and no further.

The server validates manifests as new objects, with the libraries of the minor before, and evaluates them with its own. A
policy's variables, validations, messages, annotations and mutations share one compiler; a match condition stands
alone. Everything about CEL that manifests need is here.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.version import KubernetesVersion
from replay.manifests.field_error import FieldError, internal, invalid

__all__ = ["CheckedExpression", "ExpressionKind", "Expressions"]


class CheckedExpression(Struct, frozen=True):
    """An expression with the path of its field; `compiled.error` is None where it is fine."""

    path: str
    compiled: CompiledExpression
    variable: str = ""


class Expressions(Struct):
    """Compiles the expressions of one object and keeps them for the lints.

    `composed`: whether expressions can read `variables`, which a validating policy without any does not even declare.
    """

    version: KubernetesVersion
    has_params: bool = False
    composed: bool = True
    checked: list[CheckedExpression] = field(default_factory=list)
    _compiler: ExpressionCompiler | None = None

    def check(self, kind: ExpressionKind, expression: str, path: str, *, shown: str = "") -> Iterator[FieldError]:
        """The error of an expression, if it has one; `shown` is how the error prints it where it was trimmed."""
        compiler = self._standalone() if kind is ExpressionKind.MATCH_CONDITION else self._composed()
        compiled = compiler.compile(kind, expression)
        self.checked.append(CheckedExpression(path, compiled))
        yield from _errors(compiled, path, shown or expression)

    def declare_variable(self, name: str, expression: str, path: str) -> Iterator[FieldError]:
        """The error of a variable, which later expressions see in any case.

        Even in a mutating policy the validation of variables knows no `Object` and `JSONPatch`.
        """
        compiled = self._composed().declare_variable(name, expression)
        self.checked.append(CheckedExpression(path, compiled, name))
        yield from _errors(compiled, path, expression)

    def _composed(self) -> ExpressionCompiler:
        if self._compiler is None:
            self._compiler = ExpressionCompiler(
                self.version,
                has_params=self.has_params,
                composed=self.composed,
                compatible=self.version.previous,
            )
        return self._compiler

    def _standalone(self) -> ExpressionCompiler:
        return ExpressionCompiler(
            self.version, has_params=self.has_params, composed=False, compatible=self.version.previous
        )


def _errors(compiled: CompiledExpression, path: str, shown: str) -> Iterator[FieldError]:
    if compiled.error is None:
        return
    if compiled.is_internal_error:
        yield internal(path, compiled.error)
    else:
        yield invalid(path, shown, compiled.error)
