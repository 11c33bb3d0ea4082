"""Observers of decisions. They receive each step once, as it happens.

Without an observer no step costs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from replay.admission.inputs import Inputs, MatchConditionsResult
from replay.admission.params import Params, ParamsError
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.kube.attributes import Attributes, Missing
from replay.kube.discovery import APIResource
from replay.matching.matcher import MatchResult


class ConditionsObserver(Protocol):
    """Receives the evaluated match conditions."""

    def conditions(
        self,
        compiler: ExpressionCompiler,
        compiled: Sequence[CompiledExpression],
        inputs: Inputs,
        result: MatchConditionsResult,
    ) -> None:
        """Receive match conditions, the compiler with their variables, and their common result."""
        ...


class ValidationObserver(ConditionsObserver, Protocol):
    """A receiver of the expressions that a validating policy evaluates."""

    def validations(
        self,
        compiler: ExpressionCompiler,
        compiled: Sequence[tuple[CompiledExpression, CompiledExpression | None]],
        annotations: Sequence[tuple[str, CompiledExpression]],
        inputs: Inputs,
    ) -> None:
        """Receive the validations, each with its message expression, and the audit annotations by key."""
        ...


class MutationObserver(ConditionsObserver, Protocol):
    """A receiver of the expressions that a mutating policy evaluates."""

    def mutation(self, compiler: ExpressionCompiler, compiled: CompiledExpression, inputs: Inputs) -> None:
        """Receive the next mutation. `inputs` have the result of the ones before."""
        ...


class HookObserver(Protocol):
    """Receives the steps of one pass over a set's policies, down to bindings and parameters."""

    def excluded(self, hook: Any, resource: str, *, static_only: bool) -> None:
        """Receive that no policy, or only a static one, evaluates this resource."""
        ...

    def matched(self, hook: Any, match: MatchResult, attributes: Attributes) -> None:
        """Receive the match of a policy with the attributes."""
        ...

    def parameterised(self, hook: Any, resource: APIResource | ParamsError | Missing | None) -> None:
        """Receive the resource of the parameters of a matching policy."""
        ...

    def bound(self, hook: Any, binding: Any, match: MatchResult, attributes: Attributes) -> None:
        """Receive the match of a binding with the attributes."""
        ...

    def collected(self, hook: Any, binding: Any, params: Params | ParamsError | Missing) -> None:
        """Receive the parameters of a matching binding."""
        ...

    def evaluating(self, hook: Any, binding: Any, param: Any) -> Any:
        """Receive the start of an evaluation; return the observer of its expressions."""
        ...

    def evaluated(self, result: Any) -> None:
        """Receive the result of the last evaluation."""
        ...


class WebhookObserver(ConditionsObserver, Protocol):
    """Receives the steps of one pass over a set's webhooks, down to their calls."""

    def matched(self, hook: Any, match: MatchResult, attributes: Attributes) -> None:
        """Receive the match of a webhook with the attributes; the next match conditions belong to it."""
        ...

    def called(self, hook: Any, answer: Any) -> None:
        """Receive the call of a webhook, the denial that ends the request, or why the call is unknown."""
        ...
