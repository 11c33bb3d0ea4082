"""The CEL expressions of one object, compiled as in its validation.

The server validates manifests as new objects, with the libraries of the previous minor version, and evaluates them with
its own. The variables, validations, messages, annotations and mutations of a policy share one compiler. A match
condition has its own. Only this module connects manifests with CEL.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.version import KubernetesVersion
from replay.manifests.finding import FieldError, internal, invalid

__all__ = ["CheckedExpression", "ExpressionKind", "Expressions"]


class CheckedExpression(Struct, frozen=True):
    """An expression with the path of its field. `compiled.error` is None if it is valid."""

    path: str
    compiled: CompiledExpression
    variable: str = ""


class Expressions(Struct):
    """Compiler of the expressions of one object. It keeps them for the lints.

    `composed` says whether expressions can read `variables`. A validating policy without variables does not even
    declare the name.
    """

    version: KubernetesVersion
    has_params: bool = False
    composed: bool = True
    checked: list[CheckedExpression] = field(default_factory=list)
    _compiler: ExpressionCompiler | None = None

    def check(self, kind: ExpressionKind, expression: str, path: str, *, shown: str = "") -> Iterator[FieldError]:
        """Yield the error of an expression, if it has one. `shown` is the text in the error if it was trimmed."""
        compiler = self._standalone() if kind is ExpressionKind.MATCH_CONDITION else self._composed()
        compiled = compiler.compile(kind, expression)
        self.checked.append(CheckedExpression(path, compiled))
        yield from _errors(compiled, path, shown or expression)

    def declare_variable(self, name: str, expression: str, path: str) -> Iterator[FieldError]:
        """Yield the error of a variable. Later expressions see the variable even if it has an error.

        The validation of variables does not know `Object` and `JSONPatch`, even in a mutating policy.
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
