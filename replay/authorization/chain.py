"""The authorizers of a server in their order (`k8s.io/apiserver/pkg/authorization/union`).

A chain is built from a configuration and the known cluster (`k8s.io/kubernetes/pkg/kubeapiserver/authorizer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from replay.authorization.abac import NO_MATCH, ABACPolicy
from replay.authorization.configuration import AuthorizationConfiguration, AuthorizerConfiguration, mode_configuration
from replay.authorization.match_condition import ConditionResults, WebhookConditions
from replay.authorization.node_authorizer import Graph, NodeAuthorizer
from replay.authorization.question import Question
from replay.authorization.trace import (
    INTERNAL_ERROR,
    PRIVILEGED_GROUP,
    Authorization,
    AuthorizationVerdict,
    AuthorizerDecision,
    AuthorizerStep,
    StepOutcome,
)
from replay.authorization.webhook import AuthorizerAnswers
from replay.cellib.authorization import compile_condition
from replay.cellib.version import KubernetesVersion
from replay.go.format import aggregate
from replay.identity import IdentityMap
from replay.kube.attributes import Missing
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.rbac_authorizer import MASTERS_GROUP, NODE_PREFIX, RBACVerdict, RoleResolver

_ONLY_ALLOW = frozenset(["ABAC", "Node", "RBAC"])


class _Member(Protocol):
    """One authorizer of a chain."""

    @property
    def name(self) -> str:
        """Name of the authorizer, unique in the chain."""

    @property
    def type(self) -> str:
        """Type of the authorizer, as in the configuration."""

    def consult(self, question: Question) -> AuthorizerStep:
        """Return the step of this authorizer for a question."""


@dataclass(frozen=True, slots=True)
class AuthorizerChain:
    """A chain of authorizers, in order. The authorizer of the privileged group is the first."""

    members: Sequence[_Member]

    def decide(self, attributes: AuthorizationAttributes | Question) -> Authorization:
        """Return the decision, with the step of each member. Several chains can share a `Question`."""
        question = attributes if isinstance(attributes, Question) else Question(attributes)
        steps: list[AuthorizerStep] = []
        unknown: AuthorizerStep | None = None
        deciding: AuthorizerStep | None = None
        for member in self.members:
            if deciding is not None:
                steps.append(_not_reached(member.name, member.type))
                continue
            # An unknown answer does not end the chain. The members after it show the decision that follows if the
            # answer is "no opinion".
            step = member.consult(question)
            steps.append(step if unknown is None else step.after_unknown())
            if step.decision is AuthorizerDecision.UNKNOWN:
                unknown = unknown or step
            elif step.decision is not AuthorizerDecision.NO_OPINION:
                deciding = step
        decided = _authorization(steps, deciding)
        # ABAC, Node and RBAC never deny. If only they are unknown and a later member allows, the decision is certain.
        if unknown is None or (decided.decision is AuthorizationVerdict.ALLOW and not _may_deny(steps)):
            return decided
        return Authorization(AuthorizationVerdict.UNKNOWN, "", decided.trace, "", unknown.name, decided.decision)

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """Return the decision for the CEL variable `authorizer` of a policy, or Missing if it is unknown."""
        decided = self.decide(attributes)
        if decided.decision is AuthorizationVerdict.UNKNOWN:
            step = decided.deciding_step
            missing = (
                step.missing
                if step is not None and step.missing
                else f"replay has no answer of the webhook `{decided.decided_by}`"
            )
            return Missing("authorizer", missing)
        return AuthorizationDecision(decided.decision is AuthorizationVerdict.ALLOW, decided.reason, decided.error)


@lru_cache(maxsize=1024)
def _not_reached(name: str, type_: str) -> AuthorizerStep:
    return AuthorizerStep(name, type_, StepOutcome.NOT_REACHED, AuthorizerDecision.NOT_ASKED)


@lru_cache(maxsize=1024)
def _no_opinion_step(name: str, type_: str) -> AuthorizerStep:
    return AuthorizerStep(name, type_, StepOutcome.CONSULTED)


def _may_deny(steps: Sequence[AuthorizerStep]) -> bool:
    """Return whether a member with an unknown answer can have denied. ABAC, Node and RBAC only allow or have no opinion."""
    return any(step.decision is AuthorizerDecision.UNKNOWN and step.type not in _ONLY_ALLOW for step in steps)


def _authorization(steps: Sequence[AuthorizerStep], deciding: AuthorizerStep | None) -> Authorization:
    """Return the server's decision from the steps of the members (`withAuthorization`)."""
    trace = tuple(steps)
    if deciding is not None:
        decided_by, reason, error = deciding.name, deciding.reason, deciding.error
        # `withAuthorization` tests for "allow" before the error, so an error of an allowing authorizer is ignored.
        if deciding.decision is AuthorizerDecision.ALLOW:
            return Authorization(AuthorizationVerdict.ALLOW, reason, trace, error, decided_by)
    else:
        decided_by = ""
        reason = "\n".join(f"{step.name}: {step.reason}" for step in steps if step.reason)
        error = aggregate(step.error for step in steps if step.error) or None
    if error is not None:
        return Authorization(AuthorizationVerdict.ERROR, INTERNAL_ERROR, trace, error, decided_by)
    return Authorization(AuthorizationVerdict.FORBID, reason, trace, decided_by=decided_by)


WEBHOOK = "Webhook"


@dataclass(frozen=True, slots=True)
class PrivilegedGroupMember:
    """The authorizer that allows everything to the group `system:masters`."""

    name: str = PRIVILEGED_GROUP
    type: str = "PrivilegedGroup"

    def consult(self, question: Question) -> AuthorizerStep:
        """See `_Member`."""
        if MASTERS_GROUP not in question.attributes.user.groups:
            return _no_opinion_step(self.name, self.type)
        return AuthorizerStep(self.name, self.type, StepOutcome.CONSULTED, AuthorizerDecision.ALLOW)


@dataclass(frozen=True, slots=True)
class ConstantMember:
    """The authorizers `AlwaysAllow` and `AlwaysDeny`. The latter has no opinion on anything (`authorizerfactory`)."""

    name: str
    type: str

    def consult(self, question: Question) -> AuthorizerStep:
        """See `_Member`."""
        del question
        if self.type == "AlwaysAllow":
            return AuthorizerStep(self.name, self.type, StepOutcome.CONSULTED, AuthorizerDecision.ALLOW)
        reason = "Everything is forbidden."
        return AuthorizerStep(self.name, self.type, StepOutcome.CONSULTED, AuthorizerDecision.NO_OPINION, reason)


@dataclass(frozen=True, slots=True)
class _ABACMember:
    """The ABAC authorizer: the policies of a file, which allow or have no opinion."""

    policies: Sequence[ABACPolicy]
    name: str = "abac"
    type: str = "ABAC"

    def consult(self, question: Question) -> AuthorizerStep:
        """See `_Member`."""
        is_allowed = any(each.matches(question.attributes) for each in self.policies)
        decision = AuthorizerDecision.ALLOW if is_allowed else AuthorizerDecision.NO_OPINION
        return AuthorizerStep(self.name, self.type, StepOutcome.CONSULTED, decision, "" if is_allowed else NO_MATCH)


@dataclass(frozen=True, slots=True)
class UnknownMember:
    """An authorizer without its input, such as ABAC when the policy file is not beside the set."""

    name: str
    type: str
    missing: str

    def consult(self, question: Question) -> AuthorizerStep:
        """See `_Member`."""
        del question
        return AuthorizerStep(
            self.name, self.type, StepOutcome.UNKNOWN, AuthorizerDecision.UNKNOWN, missing=self.missing
        )


@dataclass(frozen=True, slots=True)
class _NodeMember:
    """The node authorizer."""

    authorizer: NodeAuthorizer
    name: str = "node"
    type: str = "Node"

    def consult(self, question: Question) -> AuthorizerStep:
        """See `_Member`."""
        verdict = self.authorizer.authorize(question.attributes)
        if verdict.decision is AuthorizerDecision.NO_OPINION and not verdict.reason:
            return _no_opinion_step(self.name, self.type)
        outcome = StepOutcome.UNKNOWN if verdict.decision is AuthorizerDecision.UNKNOWN else StepOutcome.CONSULTED
        return AuthorizerStep(self.name, self.type, outcome, verdict.decision, verdict.reason, missing=verdict.missing)


@dataclass(frozen=True, slots=True)
class _RBACMember:
    """The RBAC authorizer. If several bindings allow, the first by name gives the reason."""

    roles: RoleResolver
    name: str = "rbac"
    type: str = "RBAC"
    steps: IdentityMap[RBACVerdict, AuthorizerStep] = field(default_factory=IdentityMap, compare=False)
    """The steps of the verdicts that the grants keep."""

    def consult(self, question: Question) -> AuthorizerStep:
        """See `_Member`."""
        verdict = self.roles.decide(question.attributes)
        step = self.steps.get(verdict)
        if step is None:
            step = self.steps[verdict] = self._step(verdict)
        return step

    def _step(self, verdict: RBACVerdict) -> AuthorizerStep:
        if verdict.allowing:
            reasons = tuple(dict.fromkeys(verdict.reasons))
            several = reasons if len(reasons) > 1 else ()
            allowed = StepOutcome.CONSULTED, AuthorizerDecision.ALLOW
            return AuthorizerStep(self.name, self.type, *allowed, reasons[0], possible_reasons=several)
        if verdict.missing:
            reason = verdict.missing[0].reason
            return AuthorizerStep(self.name, self.type, StepOutcome.UNKNOWN, AuthorizerDecision.UNKNOWN, missing=reason)
        return AuthorizerStep(
            self.name, self.type, StepOutcome.CONSULTED, AuthorizerDecision.NO_OPINION, verdict.refusal
        )


@dataclass(frozen=True, slots=True)
class _WebhookMember:
    """A webhook with its match conditions. `version` is the version of the SubjectAccessReviews that it gets."""

    name: str
    matcher: WebhookConditions
    failure_policy: AuthorizerDecision
    answers: AuthorizerAnswers
    version: str = "v1"
    type: str = field(default=WEBHOOK)
    steps: IdentityMap[ConditionResults, AuthorizerStep] = field(default_factory=IdentityMap, compare=False)
    """The steps for the results that the matcher keeps, if no answer is needed."""

    def consult(self, question: Question) -> AuthorizerStep:
        """See `_Member`."""
        match = self.matcher.match(question)
        step = self.steps.get(match)
        if step is None:
            step = self._not_called(match)
            if step is not None:
                self.steps[match] = step
        return step or self._webhook_step(match, question)

    def _not_called(self, match: ConditionResults) -> AuthorizerStep | None:
        """Return the step of a webhook that its conditions skip, or whose answers are unknown.

        None if the webhook is called.
        """
        if match.skipped_by is not None:
            return self._step(StepOutcome.SKIPPED, match, skipped_by=match.skipped_by)
        if match.error is not None:
            return self._failed(StepOutcome.MATCH_CONDITION_ERROR, match, match.error)
        if not self.answers.is_known(self.name):
            return self._step(StepOutcome.UNKNOWN, match, AuthorizerDecision.UNKNOWN)
        return None

    def _webhook_step(self, match: ConditionResults, question: Question) -> AuthorizerStep:
        answer = self.answers.answer(self.name, self.version, question.spec)
        if answer is None:
            return self._step(StepOutcome.UNKNOWN, match, AuthorizerDecision.UNKNOWN)
        if answer.failed:
            return self._failed(StepOutcome.CALL_FAILED, match, answer.error)
        return self._step(StepOutcome.CALLED, match, answer.decision, reason=answer.reason, error=answer.error)

    def _failed(self, outcome: StepOutcome, match: ConditionResults, error: str | None) -> AuthorizerStep:
        policy = self.failure_policy
        return self._step(outcome, match, policy, error=error, failure_policy=policy.value)

    def _step(
        self,
        outcome: StepOutcome,
        match: ConditionResults,
        decision: AuthorizerDecision = AuthorizerDecision.NO_OPINION,
        **rest: Any,
    ) -> AuthorizerStep:
        return AuthorizerStep(self.name, self.type, outcome, decision, conditions=match.conditions, **rest)

    @property
    def may_read_names(self) -> bool:
        """Whether the step can depend on the object's name. A webhook that is called gets the name."""
        return "resourceAttributes.name" in self.matcher.reads or self.answers.is_known(self.name)

    def reads_name(self, question: Question) -> bool:
        """Return whether the step for a question can depend on the object's name."""
        if "resourceAttributes.name" in self.matcher.reads:
            return True
        match = self.matcher.match(question)
        return self.answers.is_known(self.name) and match.skipped_by is None and not match.error


DEFAULT_MODES = ("Node", "RBAC")
"""The authorization modes of a set that has no configuration."""
DEFAULT_CONFIGURATION = mode_configuration(DEFAULT_MODES)


class ChainBuilder:
    """Builder of the chains of an accepted configuration. Parts that do not depend on the cluster are built once."""

    def __init__(
        self, configuration: AuthorizationConfiguration, answers: AuthorizerAnswers, version: KubernetesVersion
    ) -> None:
        """`answers` are the answers of the webhooks."""
        self._version = version
        self._members = [(each, _member(each, answers, version)) for each in configuration.authorizers]
        webhooks = [own for _, own in self._members if isinstance(own, _WebhookMember)]
        self._readers = [each for each in webhooks if each.may_read_names]
        self._steps: dict[str, IdentityMap[RBACVerdict, AuthorizerStep]] = {}

    def build(self, roles: RoleResolver, graph: Graph) -> AuthorizerChain:
        """Return the chain for a state of the cluster. All `roles` that a builder gets must have the same base."""
        return AuthorizerChain(
            (PrivilegedGroupMember(), *(own or self._member_for(each, roles, graph) for each, own in self._members))
        )

    def reads_name(self, attributes: AuthorizationAttributes) -> bool:
        """Return whether a decision may depend on the object's name, apart from RBAC rules that name it."""
        if attributes.user.username.startswith(NODE_PREFIX):
            return True
        return bool(self._readers) and any(each.reads_name(Question(attributes)) for each in self._readers)

    def _member_for(self, authorizer: AuthorizerConfiguration, roles: RoleResolver, graph: Graph) -> _Member:
        """Return a member that depends on the state of the cluster."""
        if authorizer.type == "Node":
            return _NodeMember(NodeAuthorizer(graph, self._version), authorizer.name)
        return _RBACMember(roles, authorizer.name, steps=self._steps.setdefault(authorizer.name, IdentityMap()))


def _member(
    authorizer: AuthorizerConfiguration, answers: AuthorizerAnswers, version: KubernetesVersion
) -> _Member | None:
    """Return an authorizer, or None for Node and RBAC, which depend on the state of the cluster."""
    match authorizer.type:
        case "Node" | "RBAC":
            return None
        case "AlwaysAllow" | "AlwaysDeny":
            return ConstantMember(authorizer.name, authorizer.type)
        case "ABAC" if authorizer.policies is not None:
            return _ABACMember(authorizer.policies, authorizer.name)
    webhook = authorizer.webhook
    if webhook is None:
        return UnknownMember(
            authorizer.name, authorizer.type, f"the configuration of the authorizer {authorizer.type} was not given"
        )
    conditions = [compile_condition(version, expression) for expression in webhook.match_conditions or ()]
    return _WebhookMember(
        authorizer.name,
        WebhookConditions(conditions),
        AuthorizerDecision(webhook.failure_policy),
        answers,
        webhook.subject_access_review_version,
    )
