"""`matchConditions` of policies and webhooks (`k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from replay.admission.inputs import KindEvaluation
from replay.cellib.expression import CompiledExpression
from replay.kube.admissionregistration import FailurePolicy
from replay.kube.attributes import Missing

BUDGET = 2_500_000
"""Cost units for all match conditions of a policy or webhook on one request."""


class MatchConditionsResult(Struct, frozen=True):
    """The result of all match conditions. `error` denies the request. `unknown` says what the result depends on."""

    matches: bool
    error: str | None = None
    unknown: tuple[Missing, ...] = ()


MATCHES = MatchConditionsResult(matches=True)
SKIPPED = MatchConditionsResult(matches=False)


def match_conditions(
    compiled: Sequence[CompiledExpression], evaluation: KindEvaluation, failure_policy: FailurePolicy
) -> MatchConditionsResult:
    """Evaluate the conditions. A false one skips the policy. Otherwise `failurePolicy` decides about errors.

    The server evaluates all conditions before it reads any result. So exceeding the budget is an error even if an
    earlier condition is false.
    """
    errors: list[str] = []
    unknown: list[Missing] = []
    is_false = False
    for condition in compiled:
        if condition.error:
            errors.append(f"compilation error: {condition.error}")
            continue
        evaluated = evaluation.evaluate(condition)
        if evaluated.out_of_budget:
            return _failed([str(evaluated.error)], failure_policy)
        if evaluated.unknown:
            unknown.extend(evaluated.unknown)
        elif evaluated.error is not None:
            errors.append(f"expression '{condition.expression}' resulted in error: {evaluated.error}")
        elif evaluated.value is False:
            is_false = True
    if is_false:
        return SKIPPED
    if errors and (failure_policy is FailurePolicy.IGNORE or not unknown):
        # an unknown condition may be false, which skips too
        return _failed(errors, failure_policy)
    if unknown:
        return MatchConditionsResult(matches=True, unknown=tuple(dict.fromkeys(unknown)))
    return MATCHES


def _failed(errors: Iterable[str], failure_policy: FailurePolicy) -> MatchConditionsResult:
    """Return the result of errors without a false condition: `Ignore` skips the policy."""
    if failure_policy is FailurePolicy.IGNORE:
        return SKIPPED
    distinct = list(dict.fromkeys(errors))
    return MatchConditionsResult(matches=False, error=distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")
