"""Decisions of one evaluation of a validating policy (`policy/validating.PolicyDecision` and `ValidateResult`)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from replay.kube.admissionregistration import FailurePolicy
from replay.kube.attributes import Missing

DEFAULT_REASON = "Invalid"

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class Action(StrEnum):
    """Effect of a decision."""

    ADMIT = "admit"
    DENY = "deny"
    UNKNOWN = "unknown"


class DecisionEvaluation(StrEnum):
    """Result of the evaluation that caused the decision."""

    ADMIT = "admit"
    ERROR = "error"
    DENY = "deny"
    UNKNOWN = "unknown"


class AuditAnnotationAction(StrEnum):
    """Effect of an audit annotation's evaluation."""

    PUBLISH = "publish"
    ERROR = "error"
    EXCLUDE = "exclude"
    UNKNOWN = "unknown"


class PolicyDecision(NamedTuple):
    """The decision of one validation, or of the whole policy.

    `unknown` are the missing inputs on which the action depends, or only the message of a certain denial.
    """

    action: Action
    evaluation: DecisionEvaluation
    message: str = ""
    reason: str = DEFAULT_REASON
    unknown: tuple[Missing, ...] = ()


class PolicyAuditAnnotation(NamedTuple):
    """An evaluated entry of `auditAnnotations`."""

    key: str
    action: AuditAnnotationAction
    value: str = ""
    error: str | None = None
    unknown: tuple[Missing, ...] = ()


class ValidateResult(NamedTuple):
    """The decisions in the order of the validations, or a single one of the policy as a whole.

    `unknown` are the missing inputs on which it depends whether there is any decision. Then there are none here.
    """

    decisions: tuple[PolicyDecision, ...] = ()
    audit_annotations: tuple[PolicyAuditAnnotation, ...] = ()
    as_a_whole: bool = False
    unknown: tuple[Missing, ...] = ()


NO_DECISION = ValidateResult()
"""Result without denials, warnings, annotations or unknowns: the policy is skipped, or every validation is true."""

ADMITTED = PolicyDecision(Action.ADMIT, DecisionEvaluation.ADMIT)


def action_for_error(failure_policy: FailurePolicy) -> Action:
    """Return the action for an error."""
    return Action.ADMIT if failure_policy is FailurePolicy.IGNORE else Action.DENY


def error_decision(failure_policy: FailurePolicy, message: str) -> PolicyDecision:
    """Return the decision of a failed evaluation. The server gives it no reason, and answers as for `Invalid`."""
    return PolicyDecision(action_for_error(failure_policy), DecisionEvaluation.ERROR, message)


def reason_to_code(reason: str) -> int:
    """Return the HTTP status of a reason."""
    # `reasonToCode` answers unknown reasons as Invalid.
    return _CODES.get(reason, 422)
