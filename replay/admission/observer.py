"""Observers of decisions. They receive each step once, as it happens.

Without an observer no step costs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from replay.admission.inputs import Inputs
from replay.admission.match_conditions import MatchConditionsResult
from replay.admission.params import Params, ParamsError
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.kube.attributes import Attributes, Missing
from replay.kube.discovery import APIResource
from replay.matching.matcher import MatchResult


class ConditionsObserver(Protocol):
    """Told which match conditions are evaluated, with the compiler that has their variables."""

    def conditions(
        self,
        compiler: ExpressionCompiler,
        compiled: Sequence[CompiledExpression],
        inputs: Inputs,
        result: MatchConditionsResult,
    ) -> None:
        """Match conditions, and what all of them came to."""
        ...


class ValidationObserver(ConditionsObserver, Protocol):
    """Told what a validating policy evaluates."""

    def validations(
        self,
        compiler: ExpressionCompiler,
        compiled: Sequence[tuple[CompiledExpression, CompiledExpression | None]],
        annotations: Sequence[tuple[str, CompiledExpression]],
        inputs: Inputs,
    ) -> None:
        """The validations, each with its message expression, and the audit annotations by key."""
        ...


class MutationObserver(ConditionsObserver, Protocol):
    """Told what a mutating policy evaluates."""

    def mutation(self, compiler: ExpressionCompiler, compiled: CompiledExpression, inputs: Inputs) -> None:
        """The next mutation, on what those before it left."""
        ...


class HookObserver(Protocol):
    """Told how one pass over the policies of a set comes from each to its bindings and parameters."""

    def excluded(self, hook: Any, resource: str, *, static_only: bool) -> None:
        """No policy, or only a static one, evaluates this resource."""
        ...

    def matched(self, hook: Any, match: MatchResult, attributes: Attributes) -> None:
        """The policy was matched with the attributes."""
        ...

    def parameterised(self, hook: Any, resource: APIResource | ParamsError | Missing | None) -> None:
        """The resource of the parameters of a policy that matches."""
        ...

    def bound(self, hook: Any, binding: Any, match: MatchResult, attributes: Attributes) -> None:
        """A binding was matched with the attributes."""
        ...

    def collected(self, hook: Any, binding: Any, params: Params | ParamsError | Missing) -> None:
        """The parameters of a binding that matches."""
        ...

    def evaluating(self, hook: Any, binding: Any, param: Any) -> Any:
        """A policy is about to be evaluated for a binding and a parameter; return the observer of its expressions."""
        ...

    def evaluated(self, result: Any) -> None:
        """Receive the result of the last evaluation."""
        ...


class WebhookObserver(ConditionsObserver, Protocol):
    """Told how one pass comes from the webhooks of a set to those that are called."""

    def matched(self, hook: Any, match: MatchResult, attributes: Attributes) -> None:
        """The webhook was matched with the attributes; match conditions that follow are its own."""
        ...

    def called(self, hook: Any, answer: Any) -> None:
        """The webhook is called, or why the request ends there, or why that is not known."""
        ...
