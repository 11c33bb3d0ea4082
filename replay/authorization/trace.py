"""The decision of a chain with its steps, as in the records of `--outcomes`, `can-i` and `explain`."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from replay.json import JSON

INTERNAL_ERROR = "internal error"
"""Reason in the audit log if the client got status 500."""
PRIVILEGED_GROUP = "kubernetes.io/system-privileged-group"
"""Name of the first authorizer of every chain. No configuration lists it."""


class AuthorizerDecision(StrEnum):
    """Answer of one authorizer. `UNKNOWN` is ours. `NOT_ASKED` means that the authorizer was not reached."""

    ALLOW = "Allow"
    DENY = "Deny"
    NO_OPINION = "NoOpinion"
    UNKNOWN = "Unknown"
    NOT_ASKED = ""


class StepOutcome(StrEnum):
    """Result of one authorizer of the chain."""

    CONSULTED = "consulted"
    SKIPPED = "skipped"
    MATCH_CONDITION_ERROR = "matchConditionError"
    CALLED = "called"
    CALL_FAILED = "callFailed"
    UNKNOWN = "unknown"
    NOT_REACHED = "notReached"


class ConditionOutcome(StrEnum):
    """Result of one match condition."""

    TRUE = "true"
    FALSE = "false"
    ERROR = "error"
    NOT_EVALUATED = "notEvaluated"


class AuthorizationVerdict(StrEnum):
    """Decision that the client sees: 403 for `FORBID`, 500 for `ERROR`."""

    ALLOW = "allow"
    FORBID = "forbid"
    ERROR = "error"
    UNKNOWN = "unknown"


class ConditionResult(Struct, frozen=True):
    """Result of one match condition. `error` is its part of the webhook's error."""

    index: int
    result: ConditionOutcome
    error: str | None = None
    expression: str = ""

    def as_json(self) -> JSON:
        """Return the result as it stands in a trace."""
        return {"index": self.index, "result": self.result.value, **({"error": self.error} if self.error else {})}


class AuthorizerStep(Struct, frozen=True):
    """One authorizer of a chain: what happened to it, and its answer.

    `possible_reasons` are the reasons that the server may give if several bindings allow. `missing` is the information
    that an unknown decision needs.
    """

    name: str
    type: str
    outcome: StepOutcome
    decision: AuthorizerDecision = AuthorizerDecision.NO_OPINION
    reason: str = ""
    error: str | None = None
    possible_reasons: tuple[str, ...] = ()
    conditions: tuple[ConditionResult, ...] = ()
    skipped_by: int | None = None
    failure_policy: str = ""
    missing: str = ""
    only_if_unknown_is_no_opinion: bool = False

    def after_unknown(self) -> AuthorizerStep:
        """Return the same step, marked as reached only if an unknown answer is "no opinion"."""
        return replace(self, only_if_unknown_is_no_opinion=True)

    def as_json(self) -> JSON:
        """Return the step as it stands in a trace, without empty fields."""
        fields: JSON = {"name": self.name, "type": self.type, "outcome": self.outcome.value}
        optional = {
            "skippedBy": self.skipped_by,
            "conditions": [each.as_json() for each in self.conditions] or None,
            "failurePolicyApplied": self.failure_policy or None,
        }
        fields.update({name: value for name, value in optional.items() if value is not None})
        fields["decision"] = self.decision.value
        texts = {
            "reason": self.reason,
            "possibleReasons": list(self.possible_reasons),
            "error": self.error,
            "missing": self.missing,
            "onlyIfUnknownIsNoOpinion": self.only_if_unknown_is_no_opinion,
        }
        fields.update({name: value for name, value in texts.items() if value})
        return fields


class Authorization(Struct, frozen=True):
    """The decision of a chain about one request.

    `reason` is the reason in the audit annotation. `decided_by` is the authorizer that decided. For `UNKNOWN` it is the
    first authorizer with an unknown answer, and it is empty if all had no opinion. `if_no_opinion` is the verdict if
    every unknown answer is "no opinion".
    """

    decision: AuthorizationVerdict
    reason: str
    trace: tuple[AuthorizerStep, ...]
    error: str | None = None
    decided_by: str = ""
    if_no_opinion: AuthorizationVerdict | None = None

    @property
    def deciding_step(self) -> AuthorizerStep | None:
        """The step that decided, or None if no authorizer had an opinion."""
        return next((step for step in self.trace if step.name == self.decided_by), None) if self.decided_by else None

    @property
    def possible_reasons(self) -> tuple[str, ...]:
        """The reasons that the server may have given."""
        step = self.deciding_step
        return (step.possible_reasons if step is not None else ()) or (self.reason,)

    def as_json(self, *, with_trace: bool = True) -> JSON:
        """Return the decision as it stands in a line of `--outcomes`."""
        fields: JSON = {"decision": self.decision.value, "reason": self.reason}
        optional = {"error": self.error, "decidedBy": self.decided_by}
        fields.update({name: value for name, value in optional.items() if value})
        if self.if_no_opinion is not None:
            fields["ifNoOpinion"] = self.if_no_opinion.value
        if with_trace:
            fields["trace"] = [step.as_json() for step in self.trace]
        return fields
