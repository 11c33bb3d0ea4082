from __future__ import annotations

from typing import Any

import pytest

from replay.cellib.composition import Evaluated, Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.library.authorizer import authorizer_bindings
from replay.cellib.version import NEWEST
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.gvk import GroupVersionKind, GroupVersionResource

UNKNOWN = Missing("authorizer", "no snapshot of the cluster was given")


class Recorder:
    """Allows what the user `root` does, knows nothing of `ghost`, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[AuthorizationAttributes] = []

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        self.asked.append(attributes)
        if attributes.user.username == "ghost":
            return UNKNOWN
        return AuthorizationDecision(attributes.user.username == "root", reason="because")


def evaluate(expression: str, authorizer: Authorizer | Missing, user: str = "root") -> Evaluated:
    compiler = ExpressionCompiler(NEWEST, has_params=False)
    attributes = Attributes(
        Operation.UPDATE,
        GroupVersionKind("apps", "v1", "Deployment"),
        GroupVersionResource("apps", "v1", "deployments"),
        "scale",
        "prod",
        "web",
        UserInfo(user, "", ("devs",)),
    )
    bound: dict[str, Any] = dict(authorizer_bindings(authorizer, attributes))
    return Evaluation(compiler, bound, 10_000_000).evaluate(compiler.compile(ExpressionKind.VARIABLE, expression))


@pytest.mark.parametrize(
    ("expression", "asked"),
    [
        (
            "authorizer.requestResource.check('update').allowed()",
            AuthorizationAttributes(
                UserInfo("root", "", ("devs",)), "update", "", "apps", "deployments", "scale", "prod", "web"
            ),
        ),
        (
            "authorizer.group('').resource('pods').subresource('log').namespace('a').name('b').check('get').allowed()",
            AuthorizationAttributes(UserInfo("root", "", ("devs",)), "get", "", "", "pods", "log", "a", "b"),
        ),
        (
            "authorizer.path('/healthz').check('get').allowed()",
            AuthorizationAttributes(UserInfo("root", "", ("devs",)), "get", "/healthz"),
        ),
    ],
)
def test_what_is_asked(expression: str, asked: AuthorizationAttributes) -> None:
    recorder = Recorder()
    assert evaluate(expression, recorder).value is True
    assert recorder.asked[-1] == asked


def test_a_service_account_asks_for_itself() -> None:
    recorder = Recorder()
    expression = "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('get').allowed()"
    assert evaluate(expression, recorder).value is False
    assert recorder.asked[0].user == UserInfo(
        "system:serviceaccount:ns:sa", "", ("system:serviceaccounts", "system:serviceaccounts:ns")
    )


@pytest.mark.parametrize(("expression", "text"), [(".reason()", "because"), (".error()", "")])
def test_parts_of_a_decision(expression: str, text: str) -> None:
    assert evaluate(f"authorizer.path('/a').check('get'){expression}", Recorder()).value == text


def test_an_undecided_check_is_unknown() -> None:
    assert evaluate("authorizer.path('/a').check('get').allowed()", Recorder(), "ghost").unknown == (UNKNOWN,)


def test_no_authorizer_is_unknown_and_absorbed() -> None:
    assert evaluate("authorizer.path('/a').check('get').allowed()", UNKNOWN).unknown == (UNKNOWN,)
    assert evaluate("true || authorizer.requestResource.check('get').allowed()", UNKNOWN).value is True
