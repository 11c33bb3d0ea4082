"""The trace of one decision as text: each authorizer, its conditions with their results, and why it was skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replay.authorization.trace import (
    Authorization,
    AuthorizationVerdict,
    AuthorizerDecision,
    AuthorizerStep,
    ConditionOutcome,
    StepOutcome,
)
from replay.report.render.document import Listing, Section, Tone, inert

_ANSWERS = {
    AuthorizationVerdict.ALLOW: "yes",
    AuthorizationVerdict.FORBID: "no",
    AuthorizationVerdict.ERROR: "no: error 500",
    AuthorizationVerdict.UNKNOWN: "not known",
}
_WORDS = {
    AuthorizerDecision.ALLOW: "allows",
    AuthorizerDecision.DENY: "denies",
    AuthorizerDecision.NO_OPINION: "no opinion",
    AuthorizerDecision.UNKNOWN: "not known",
    AuthorizerDecision.NOT_ASKED: "not reached",
}


def trace_lines(decided: Authorization) -> Iterator[str]:
    """Yield the answer, then a line for each authorizer, with its conditions below."""
    yield verdict_line(decided)
    for step in decided.trace:
        yield f"  {step.name} ({step.type}): {_result_text(step)}"
        yield from (
            f"    condition {each.index}: {each.result.value}: {' '.join((each.error or each.expression).split())}"
            for each in step.conditions
            if each.result is not ConditionOutcome.NOT_EVALUATED
        )


def authorization_trace(authorized: Iterable[tuple[str, Authorization]]) -> Iterator[Section]:
    """Yield a section for each set: its authorizers in order."""
    for name, decided in authorized:
        lines = [inert(line) for line in trace_lines(decided)]
        tone = Tone.GOOD if decided.decision is AuthorizationVerdict.ALLOW else Tone.BAD
        listing = Listing("", "\n".join(lines[1:]))
        yield Section(f"authorizers-{name}", f"Authorizers, {name}", f"{lines[0]}.", (listing,), tone)


def verdict_line(decided: Authorization) -> str:
    """Return the answer with its reason on one line."""
    parts = [_ANSWERS[decided.decision]]
    if decided.decided_by:
        parts.append(f"by {decided.decided_by}")
    if decided.if_no_opinion is not None:
        parts.append(f"{_ANSWERS[decided.if_no_opinion]} if it has no opinion")
    text = decided.error or decided.reason.replace("\n", "; ")
    return f"{', '.join(parts)}{f': {text}' if text else ''}"


def _result_text(step: AuthorizerStep) -> str:
    """Return a step's result with its reason or cause."""
    if step.outcome is StepOutcome.SKIPPED:
        return f"skipped, condition {step.skipped_by} is false"
    if step.outcome is StepOutcome.MATCH_CONDITION_ERROR:
        return f"{_WORDS[step.decision]}, because a condition fails (failurePolicy {step.failure_policy})"
    if step.outcome is StepOutcome.CALL_FAILED:
        return f"{_WORDS[step.decision]}, because the call failed (failurePolicy {step.failure_policy}): {step.error}"
    if step.outcome is StepOutcome.UNKNOWN:
        return f"would be called; {step.missing or 'its answer is not known'}"
    words = _WORDS[step.decision]
    reason = step.reason if not step.error else f"{step.reason}; {step.error}"
    others = len(step.possible_reasons) - 1
    more = f" (or {others} more)" if others > 0 else ""
    return f"{words}{f': {reason}' if reason else ''}{more}"
