"""Evaluation of the match conditions of a webhook (`k8s.io/apiserver/pkg/authorization/cel.CELMatcher`).

A false condition skips the webhook, even if an earlier condition failed. Otherwise the failure policy decides what an
error means.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from msgspec import Struct

from replay.authorization.question import Question, view_of
from replay.authorization.trace import ConditionOutcome, ConditionResult
from replay.cel.program import Program
from replay.cel.value.values import EvalError, Unknown
from replay.cellib.authorization import CompiledCondition
from replay.cellib.environment import PER_CALL_LIMIT
from replay.go.format import aggregate
from replay.json import JSON

MOST_CONDITIONS = 64
"""Maximum number of match conditions of a webhook."""


class ConditionResults(Struct, frozen=True):
    """The results of all conditions, in order. `skipped_by` is the index of the false condition, if any."""

    conditions: tuple[ConditionResult, ...]
    skipped_by: int | None = None
    error: str | None = None


class WebhookConditions:
    """The compiled conditions of one webhook."""

    def __init__(self, conditions: Sequence[CompiledCondition]) -> None:
        """Every condition must have a program."""
        self._conditions = conditions
        self._results = {
            outcome: tuple(ConditionResult(n, outcome, None, each.expression) for n, each in enumerate(conditions))
            for outcome in ConditionOutcome
        }
        self.selectors = (
            any(each.field_selector for each in conditions),
            any(each.label_selector for each in conditions),
        )
        """Whether the conditions see field selectors, and label selectors. All see them if one names them."""
        self.reads = frozenset[str]().union(*(each.reads for each in conditions))
        """The fields of `request` that can influence a result."""
        self._view = view_of(self.reads)
        self._verdicts: dict[Hashable, ConditionResults] = {}

    def match(self, question: Question) -> ConditionResults:
        """Return the results of the conditions for a question.

        Questions that have the same values in the fields that the conditions read share the results.
        """
        view = self._view(question.attributes)
        match = self._verdicts.get(view)
        if match is None:
            match = self._verdicts[view] = self._matched(question.request(self.selectors))
        return match

    def _matched(self, request: JSON) -> ConditionResults:
        """Return the results for the variable `request` (`_request_variable`).

        Evaluation ends at the first false condition.
        """
        names = {"request": request}
        results: list[ConditionResult] = []
        for index, condition in enumerate(self._conditions):
            result = self._evaluated(index, condition, names)
            results.append(result)
            # A false condition skips the webhook, even if one before it failed.
            if result.result is ConditionOutcome.FALSE:
                return ConditionResults((*results, *self._results[ConditionOutcome.NOT_EVALUATED][index + 1 :]), index)
        errors = [result.error for result in results if result.error is not None]
        return ConditionResults(tuple(results), error=aggregate(errors) if errors else None)

    def _evaluated(self, index: int, condition: CompiledCondition, names: Mapping[str, JSON]) -> ConditionResult:
        assert condition.program is not None
        value = _compiled_result(condition.program, names)
        if value is None:
            value = condition.program.eval(names).value
        if isinstance(value, Unknown):
            # Nothing of a question is missing: the evaluation was given up, and no answer of it is certain.
            reason = "; ".join(map(str, value.missing))
            return ConditionResult(index, ConditionOutcome.ERROR, f"undetermined: {reason}", condition.expression)
        if isinstance(value, EvalError):
            where = f"cel evaluation error: expression '{condition.expression}'"
            error = f"{where} resulted in error: {value.message}"
            return ConditionResult(index, ConditionOutcome.ERROR, error, condition.expression)
        return self._results[ConditionOutcome.TRUE if value is True else ConditionOutcome.FALSE][index]


def _compiled_result(program: Program, names: Mapping[str, JSON]) -> bool | None:
    """Return the result of the compiled code, or None if it has no certain result."""
    code = program.compiled
    if code is None:
        return None
    try:
        value = code.function(names, {})
    except Exception:  # noqa: BLE001 - whatever compiled code does not answer is for the strict engine
        return None
    spent = code.bound
    if code.has_loops:
        value, looped = value
        spent += looped
    return value if isinstance(value, bool) and spent < PER_CALL_LIMIT else None
