from __future__ import annotations

from dataclasses import dataclass

import pytest

from replay.authorization.chain import AuthorizerChain, ConstantMember, PrivilegedGroupMember, UnknownMember
from replay.authorization.question import Question
from replay.authorization.trace import (
    PRIVILEGED_GROUP,
    AuthorizationVerdict,
    AuthorizerDecision,
    AuthorizerStep,
    StepOutcome,
)
from replay.authorization.webhook import answer_from_response, recorded_answers
from replay.json import JSON
from replay.kube.attributes import Missing, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision

ASKED = AuthorizationAttributes(UserInfo("ann"), "get", resource="pods")
MASTER = AuthorizationAttributes(UserInfo("root", "", ("system:masters",)), "get", resource="pods")


@dataclass(frozen=True)
class Says:
    """A member that always says the same."""

    name: str
    decision: AuthorizerDecision = AuthorizerDecision.NO_OPINION
    reason: str = ""
    error: str | None = None
    type: str = "Webhook"

    def consult(self, asked: Question) -> AuthorizerStep:
        del asked
        unknown = self.decision is AuthorizerDecision.UNKNOWN
        outcome = StepOutcome.UNKNOWN if unknown else StepOutcome.CALLED
        return AuthorizerStep(self.name, self.type, outcome, self.decision, self.reason, self.error)


ALLOW, DENY, UNKNOWN = AuthorizerDecision.ALLOW, AuthorizerDecision.DENY, AuthorizerDecision.UNKNOWN


def told(*members: Says) -> dict[str, object]:
    decided = AuthorizerChain((PrivilegedGroupMember(), *members)).decide(ASKED).as_json(with_trace=False)
    assert isinstance(decided, dict)
    return decided


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param((Says("a"),), {"decision": "forbid", "reason": ""}, id="nobody has an opinion"),
        pytest.param(
            (Says("a", reason="x"), Says("b"), Says("c", reason="y")),
            {"decision": "forbid", "reason": "a: x\nc: y"},
            id="reasons of all that had none",
        ),
        pytest.param(
            (Says("a", reason="x"), Says("b", ALLOW, "y")),
            {"decision": "allow", "reason": "y", "decidedBy": "b"},
            id="the reason of the one that allows alone",
        ),
        pytest.param(
            (Says("a", error="e"), Says("b", ALLOW)),
            {"decision": "allow", "reason": "", "decidedBy": "b"},
            id="an error before an allow does not matter",
        ),
        pytest.param(
            (Says("a", error="e"), Says("b", error="f"), Says("c", error="e")),
            {"decision": "error", "reason": "internal error", "error": "[e, f]"},
            id="errors without an allow, each once",
        ),
        pytest.param(
            (Says("a", error="e"), Says("b", DENY, "no")),
            {"decision": "forbid", "reason": "no", "decidedBy": "b"},
            id="a denial after an error",
        ),
        pytest.param(
            (Says("a", DENY, "no", "e"),),
            {"decision": "error", "reason": "internal error", "error": "e", "decidedBy": "a"},
            id="a denial with an error",
        ),
        pytest.param(
            (Says("a", UNKNOWN), Says("b", ALLOW, "y")),
            {"decision": "unknown", "reason": "", "decidedBy": "a", "ifNoOpinion": "allow"},
            id="an answer that is not known",
        ),
        pytest.param(
            (Says("a", UNKNOWN, type="RBAC"), Says("b", ALLOW, "y")),
            {"decision": "allow", "reason": "y", "decidedBy": "b"},
            id="who can only allow does not matter where another one allows",
        ),
        pytest.param(
            (Says("a", UNKNOWN, type="Node"), Says("b", DENY)),
            {"decision": "unknown", "reason": "", "decidedBy": "a", "ifNoOpinion": "forbid"},
            id="who can only allow, before a denial",
        ),
    ],
)
def test_decision(members: tuple[Says, ...], expected: dict[str, object]) -> None:
    assert told(*members) == expected


def test_masters_are_allowed_before_anybody_is_asked() -> None:
    decided = AuthorizerChain((PrivilegedGroupMember(), Says("a", DENY))).decide(MASTER)
    assert (decided.decision, decided.decided_by) == (AuthorizationVerdict.ALLOW, PRIVILEGED_GROUP)
    assert [step.outcome for step in decided.trace] == [StepOutcome.CONSULTED, StepOutcome.NOT_REACHED]


def test_the_authorizer_of_policies_is_the_chain() -> None:
    assert AuthorizerChain((Says("a", ALLOW, "y"),)).authorize(ASKED) == AuthorizationDecision(allowed=True, reason="y")
    assert AuthorizerChain((Says("a", reason="x"),)).authorize(ASKED) == AuthorizationDecision(
        allowed=False, reason="a: x"
    )
    assert isinstance(AuthorizerChain((UnknownMember("abac", "ABAC", "no file"),)).authorize(ASKED), Missing)


def test_who_always_denies_has_no_opinion() -> None:
    decided = AuthorizerChain(
        (ConstantMember("alwaysdeny", "AlwaysDeny"), ConstantMember("alwaysallow", "AlwaysAllow"))
    ).decide(ASKED)
    assert (decided.decision, decided.decided_by) == (AuthorizationVerdict.ALLOW, "alwaysallow")
    refused = AuthorizerChain((ConstantMember("alwaysdeny", "AlwaysDeny"),)).decide(ASKED)
    assert refused.reason == "alwaysdeny: Everything is forbidden."


REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}


@pytest.mark.parametrize(
    ("code", "response", "expected"),
    [
        (200, {**REVIEW, "status": {"allowed": True, "reason": "r"}}, ("Allow", "r", None, False)),
        (201, {"status": {"allowed": False}}, ("NoOpinion", "", None, False)),
        (200, {**REVIEW, "status": {"allowed": False, "denied": True}}, ("Deny", "", None, False)),
        (
            200,
            {**REVIEW, "status": {"allowed": True, "denied": True}},
            ("Deny", "", "webhook subject access review returned both allow and deny response", False),
        ),
        (200, {**REVIEW}, ("NoOpinion", "", None, False)),
        (403, "oops", ("NoOpinion", "", "oops", True)),
        (
            500,
            "oops",
            ("NoOpinion", "", 'an error on the server ("oops") has prevented the request from succeeding', True),
        ),
        (
            200,
            {**REVIEW, "status": {"allowed": "yes"}},
            ("NoOpinion", "", "json: cannot unmarshal `allowed` of the answer into Go value of type bool", True),
        ),
    ],
)
def test_an_answer(code: int, response: JSON, expected: tuple[str, str, str, bool]) -> None:
    answer = answer_from_response(code, response, "v1")
    assert (answer.decision.value, answer.reason, answer.error, answer.failed) == expected


def test_a_failed_call_that_was_tried_again_counts_as_success() -> None:
    request = {**REVIEW, "apiVersion": "authorization.k8s.io/v1beta1", "spec": {"user": "a", "group": ["g"], "uid": ""}}
    answers = recorded_answers(
        [
            {"webhook": "w", "request": request, "code": 500, "response": "oops"},
            {"webhook": "w", "request": request, "code": 200, "response": {"status": {"allowed": True}}},
            {"webhook": "w", "request": request, "code": 500, "response": "oops"},
        ]
    )
    answer = answers.answer("w", "v1", {"groups": ["g"], "user": "a"})
    assert answer is not None
    assert answer.decision is ALLOW
    assert answers.answer("v", "v1", {"groups": ["g"], "user": "a"}) is None
