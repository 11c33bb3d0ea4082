"""What one evaluation of a validating policy decides (`policy/validating.PolicyDecision` and `ValidateResult`)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from replay.kube.admissionregistration import FailurePolicy
from replay.kube.attributes import Missing

DEFAULT_REASON = "Invalid"

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class Action(StrEnum):
    """What a decision does."""

    ADMIT = "admit"
    DENY = "deny"
    UNKNOWN = "unknown"


class DecisionEvaluation(StrEnum):
    """Why: what the evaluation came to."""

    ADMIT = "admit"
    ERROR = "error"
    DENY = "deny"
    UNKNOWN = "unknown"


class AuditAnnotationAction(StrEnum):
    """What becomes of an audit annotation."""

    PUBLISH = "publish"
    ERROR = "error"
    EXCLUDE = "exclude"
    UNKNOWN = "unknown"


class PolicyDecision(NamedTuple):
    """The decision of one validation, or of the whole policy.

    `unknown` says on which missing input the action, or of a certain denial the message, depends.
    """

    action: Action
    evaluation: DecisionEvaluation
    message: str = ""
    reason: str = DEFAULT_REASON
    unknown: tuple[Missing, ...] = ()


class PolicyAuditAnnotation(NamedTuple):
    """One of `auditAnnotations`, evaluated."""

    key: str
    action: AuditAnnotationAction
    value: str = ""
    error: str | None = None
    unknown: tuple[Missing, ...] = ()


class ValidateResult(NamedTuple):
    """The decisions in the order of the validations, or a single one of the policy as a whole.

    `unknown` says on what it depends whether there is any decision at all; then there are none here.
    """

    decisions: tuple[PolicyDecision, ...] = ()
    audit_annotations: tuple[PolicyAuditAnnotation, ...] = ()
    as_a_whole: bool = False
    unknown: tuple[Missing, ...] = ()


NO_DECISION = ValidateResult()
"""Nothing denies, warns, audits or is unknown: the match conditions skip the policy, or every validation is true."""

ADMITTED = PolicyDecision(Action.ADMIT, DecisionEvaluation.ADMIT)


def action_for_error(failure_policy: FailurePolicy) -> Action:
    """What an error does."""
    return Action.ADMIT if failure_policy is FailurePolicy.IGNORE else Action.DENY


def error_decision(failure_policy: FailurePolicy, message: str) -> PolicyDecision:
    """The decision of an evaluation that failed; the server gives it no reason, and answers as for `Invalid`."""
    return PolicyDecision(action_for_error(failure_policy), DecisionEvaluation.ERROR, message)


def reason_to_code(reason: str) -> int:
    """The HTTP status of a reason."""
    return _CODES.get(reason, 422)
