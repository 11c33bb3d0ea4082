"""Comparison of two authorizer chains on the same requests: changed outcomes, users and webhook calls."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from replay.authorization.trace import Authorization, AuthorizationVerdict, StepOutcome
from replay.kube.authorizer import AuthorizationAttributes

MOST_EXAMPLES = 20
_ASKED = frozenset([StepOutcome.CALLED, StepOutcome.CALL_FAILED, StepOutcome.UNKNOWN])
_REFUSED = (AuthorizationVerdict.FORBID, AuthorizationVerdict.ERROR)


class AuthorizationOutcome(StrEnum):
    """Outcome of a request. If several apply, the first in this order counts."""

    NEWLY_FORBIDDEN = "newly_forbidden"
    NEWLY_FAILING = "newly_failing"
    NEWLY_UNKNOWN = "newly_unknown"
    NEWLY_ALLOWED = "newly_allowed"
    NO_LONGER_FAILING = "no_longer_failing"
    DECIDED_BY_ANOTHER = "decided_by_another"
    UNCHANGED = "unchanged"


class AuthorizationAgreement(StrEnum):
    """Comparison of the baseline chain's decision about a request with the log's."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"


FINDINGS = (
    AuthorizationOutcome.NEWLY_FORBIDDEN,
    AuthorizationOutcome.NEWLY_FAILING,
    AuthorizationOutcome.NEWLY_ALLOWED,
)
"""Outcomes that certainly make a difference to a client."""


def authorization_outcome(current: Authorization, candidate: Authorization) -> AuthorizationOutcome:
    """Return the outcome of a request from the decisions of both chains."""
    current_decision, after = current.decision, candidate.decision
    if after is AuthorizationVerdict.UNKNOWN and current_decision is not AuthorizationVerdict.UNKNOWN:
        return AuthorizationOutcome.NEWLY_UNKNOWN
    if current_decision is AuthorizationVerdict.UNKNOWN or current_decision is after:
        is_same = current.decided_by == candidate.decided_by or AuthorizationVerdict.UNKNOWN in (
            current_decision,
            after,
        )
        return AuthorizationOutcome.UNCHANGED if is_same else AuthorizationOutcome.DECIDED_BY_ANOTHER
    if after is AuthorizationVerdict.ALLOW:
        return AuthorizationOutcome.NEWLY_ALLOWED
    if after is AuthorizationVerdict.ERROR:
        return AuthorizationOutcome.NEWLY_FAILING
    return (
        AuthorizationOutcome.NEWLY_FORBIDDEN
        if current_decision is AuthorizationVerdict.ALLOW
        else AuthorizationOutcome.NO_LONGER_FAILING
    )


def decision_of_log(current: Authorization, recorded: str) -> AuthorizationVerdict:
    """Return the decision of the baseline. If it is unknown, return the decision in the log."""
    known = (AuthorizationVerdict.ALLOW, AuthorizationVerdict.FORBID)
    if current.decision is AuthorizationVerdict.UNKNOWN and recorded in known:
        return AuthorizationVerdict(recorded)
    return current.decision


def is_newly_refused(before: AuthorizationVerdict, candidate: Authorization) -> bool:
    """Return whether a request that reached admission would no longer reach it."""
    return before is AuthorizationVerdict.ALLOW and candidate.decision in _REFUSED


def is_newly_let_in(before: AuthorizationVerdict, candidate: Authorization) -> bool:
    """Return whether a request that did not reach admission would reach it."""
    return before in _REFUSED and candidate.decision is AuthorizationVerdict.ALLOW


def is_no_longer_known(before: AuthorizationVerdict, candidate: Authorization) -> bool:
    """Return whether a request reached admission, and it is unknown whether it would again."""
    return before is AuthorizationVerdict.ALLOW and candidate.decision is AuthorizationVerdict.UNKNOWN


class AuthorizationCell(NamedTuple):
    """Key of the requests that a report does not distinguish.

    `source` decided under the baseline, `target` decides under the candidate. `was_allowed` is false for requests that
    the baseline refuses too.
    """

    outcome: AuthorizationOutcome
    user: str
    verb: str
    resource: str
    namespace: str
    source: str
    target: str
    was_allowed: bool


class AuthorizationDisagreement(NamedTuple):
    """A request that the chain of the baseline decides differently from the log."""

    audit_id: str
    recorded: str
    replayed: str


class AuthorizationSummary(Struct):
    """All counts of a run about authorization. They are merged by adding.

    `decisions` is by the verdicts of both sides. `webhooks` counts the requests that ask each webhook on each side.
    `not_reached` is by reason.
    """

    requests: int = 0
    questions: int = 0
    outcomes: Counter[AuthorizationOutcome] = field(default_factory=Counter)
    decisions: Counter[tuple[AuthorizationVerdict, AuthorizationVerdict]] = field(default_factory=Counter)
    cells: Counter[AuthorizationCell] = field(default_factory=Counter)
    examples: dict[AuthorizationCell, str] = field(default_factory=dict)
    webhooks: Counter[tuple[str, str]] = field(default_factory=Counter)
    not_reached: Counter[str] = field(default_factory=Counter)
    agreements: Counter[AuthorizationAgreement] = field(default_factory=Counter)
    disagreements: list[AuthorizationDisagreement] = field(default_factory=list)
    writes_newly_refused: int = 0
    writes_newly_let_in: int = 0
    warnings: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    """Bindings of the baseline that allowed no request of the log."""

    @property
    def observed(self) -> int:
        """Number of requests that reached the authorizers."""
        return self.agreements.total()

    @property
    def reproduced(self) -> int:
        """Number of requests that the baseline decides as the log says."""
        return self.agreements[AuthorizationAgreement.AGREES]

    @property
    def undecided(self) -> int:
        """Number of requests that the baseline cannot decide."""
        return self.agreements[AuthorizationAgreement.UNDECIDED]

    @property
    def differs(self) -> int:
        """Number of requests that the baseline decides differently from the log."""
        return self.agreements[AuthorizationAgreement.DIFFERS]

    def disagree(self, audit_id: str, current: Authorization, decision: str, reason: str) -> None:
        """Keep a request that the baseline decides differently from the log, if there are not enough examples yet."""
        if len(self.disagreements) < MOST_EXAMPLES:
            observed_text = f"{decision or 'error'}: {reason}" if reason else decision
            replayed = f"{current.decision.value}: {current.reason}" if current.reason else current.decision.value
            self.disagreements.append(AuthorizationDisagreement(audit_id, observed_text, replayed))


def agreement_of(current: Authorization, decision: str, reason: str) -> AuthorizationAgreement:
    """Return how the decision of the baseline compares with the log's for a request that reached the authorizers."""
    if current.decision is AuthorizationVerdict.UNKNOWN:
        return AuthorizationAgreement.UNDECIDED
    return AuthorizationAgreement.AGREES if agrees(current, decision, reason) else AuthorizationAgreement.DIFFERS


def agrees(current: Authorization, decision: str, reason: str) -> bool:
    """Return whether a decision equals the recorded one.

    Several bindings can give the reason. An error is recorded without a decision.
    """
    if not decision:
        return current.decision is AuthorizationVerdict.ERROR
    return decision == current.decision.value and reason in current.possible_reasons


def cell_of(
    attributes: AuthorizationAttributes, current: Authorization, candidate: Authorization, outcome: AuthorizationOutcome
) -> AuthorizationCell:
    """Return the key under which a changed request is counted."""
    return AuthorizationCell(
        outcome,
        attributes.user.username,
        attributes.verb,
        resource_label(attributes),
        attributes.namespace,
        source_of(current),
        source_of(candidate),
        current.decision is AuthorizationVerdict.ALLOW,
    )


def resource_label(attributes: AuthorizationAttributes) -> str:
    """Return the requested resource as in `pods/log` or `deployments.apps`, or the path."""
    if not attributes.is_resource_request:
        return attributes.path
    group = f".{attributes.api_group}" if attributes.api_group else ""
    subresource = f"/{attributes.subresource}" if attributes.subresource else ""
    return f"{attributes.resource}{group}{subresource}"


def source_of(decided: Authorization) -> str:
    """Return the name of the authorizer that decided, or of the binding for RBAC."""
    if not decided.decided_by:
        return "nobody"
    step = decided.deciding_step
    if step is not None and step.type == "RBAC" and decided.decision is AuthorizationVerdict.ALLOW:
        return decided.reason.removeprefix("RBAC: allowed by ").rpartition(" to ")[0] or decided.decided_by
    return decided.decided_by


def webhooks_asked(decided: Authorization) -> tuple[str, ...]:
    """Return the names of the webhooks that a request asks."""
    return tuple(step.name for step in decided.trace if step.type == "Webhook" and step.outcome in _ASKED)


# Requests with equal decisions of the authorizers.


class AlikeRequests(NamedTuple):
    """Key of requests that are alike. `authorizer` is empty without a replay."""

    decision: str
    reason: str
    authorizer: str
    user: str
    verb: str
    resource: str
    namespace: str


class AuthorizationLookup(Struct):
    """Number of requests by key, with the auditID of the first of each."""

    log: str
    requests: Counter[AlikeRequests] = field(default_factory=Counter)
    first: dict[AlikeRequests, str] = field(default_factory=dict)
