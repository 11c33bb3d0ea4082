"""Explanation of one request in one set: matching policies, reasons of the others, and values of expressions.

It decides nothing. It shows the steps that the chain reported. Only expressions run again, on the strict engine, for
the value of each part and the exact cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from replay.admission.decision import Denial
from replay.cel.strict.trace import Trace
from replay.cel.value.values import Value
from replay.cellib.expression import CompiledExpression
from replay.json import JSON
from replay.kube.admissionregistration import FailurePolicy

NO_TRACE = Trace(())


class ExpressionStep(Struct, frozen=True):
    """One expression and its result: `value` may be an `EvalError` or an `Unknown`. `label` names the expression.

    `cost` includes the variables that it read first. `effect` names the effect on the request.
    """

    label: str
    compiled: CompiledExpression
    value: Value
    trace: Trace = NO_TRACE
    cost: int = 0
    effect: str = ""


class BindingExplanation(Struct, frozen=True):
    """A policy with one binding and one parameter.

    `mismatch` says why the binding does not match, otherwise `outcome` describes the result. `place` is the place in an
    engine's policy that gives the outcome, outermost part first.
    """

    binding: str
    actions: tuple[str, ...] = ()
    mismatch: str = ""
    param: str = ""
    steps: tuple[ExpressionStep, ...] = ()
    outcome: str = ""
    patch: tuple[JSON, ...] = ()
    place: tuple[str, ...] = ()

    @property
    def cost(self) -> int:
        """The cost of all expressions. Variables are part of the expressions that read them."""
        return sum(step.cost for step in self.steps if not step.label.startswith("variable "))


class PolicyExplanation(Struct, frozen=True):
    """A policy.

    `mismatch` says why it does not match, `matched_as` as which resource it does, `error` why it is unusable.
    """

    policy: str
    kind: str
    failure_policy: FailurePolicy
    mismatch: str = ""
    matched_as: str = ""
    error: str | None = None
    bindings: tuple[BindingExplanation, ...] = ()

    @property
    def matches(self) -> bool:
        """Return whether the policy and one of its bindings match, or the policy is unusable."""
        return bool(self.error) or any(not each.mismatch for each in self.bindings)


class PassExplanation(Struct, frozen=True):
    """One mutating pass, counted from 1: the first with all policies, the second with repeated ones.

    `webhooks` are called again.
    """

    number: int
    policies: tuple[PolicyExplanation, ...] = ()
    webhooks: tuple[str, ...] = ()


class WebhookExplanation(Struct, frozen=True):
    """A webhook. `reason` says why it is not called, empty if it is. `steps` are the false match conditions."""

    webhook: str
    configuration: str
    phase: str
    reason: str = ""
    steps: tuple[ExpressionStep, ...] = ()


class Explanation(NamedTuple):
    """Explanation of one plugin or one pass. `called` are webhooks that are called again."""

    policies: tuple[PolicyExplanation, ...] = ()
    webhooks: tuple[WebhookExplanation, ...] = ()
    called: tuple[str, ...] = ()


def refusal_of(denials: Sequence[Denial]) -> str:
    """Return why evaluation ends after a denial, empty if there is none."""
    return f"`{denials[0].policy}` refuses the request" if denials else ""


def param_name(param: JSON) -> str:
    """Return `namespace/name` of a parameter, empty if there is none."""
    value = getattr(param, "value", param)
    metadata: Mapping[str, Any] = value.get("metadata") or {} if isinstance(value, dict) else {}
    return "/".join(filter(None, (str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))))
