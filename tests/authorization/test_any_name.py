"""What tells that a decision is the same for every name of an object."""

from __future__ import annotations

import pytest

from replay.authorization.match_condition import ConditionResults, WebhookConditions
from replay.authorization.question import Question
from replay.cellib.authorization import compile_condition
from replay.cellib.version import KubernetesVersion
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("request.user == 'ann'", False, id="user"),
        pytest.param("has(request.resourceAttributes)", False, id="presence of the attributes"),
        pytest.param("request.resourceAttributes.namespace == 'a'", False, id="another attribute"),
        pytest.param("request.resourceAttributes.name == 'a'", True, id="name"),
        pytest.param("has(request.resourceAttributes.name)", True, id="presence of the name"),
        pytest.param("request.?resourceAttributes.?name.orValue('') == 'a'", True, id="optional name"),
        pytest.param("[request.resourceAttributes].exists(a, a.name == 'a')", True, id="through a variable"),
        pytest.param("[request].exists(r, r.resourceAttributes.name == 'a')", True, id="the request in a list"),
        pytest.param("request == request", True, id="the request as a whole"),
    ],
)
def test_condition_reads_name(expression: str, *, expected: bool) -> None:
    reads = compile_condition(KubernetesVersion(1, 37), expression).reads
    assert ("resourceAttributes.name" in reads) is expected


def matched(expression: str, *asked: AuthorizationAttributes) -> list[ConditionResults]:
    matcher = WebhookConditions([compile_condition(KubernetesVersion(1, 37), expression)])
    return [matcher.match(Question(each)) for each in asked]


@pytest.mark.parametrize(
    ("expression", "same"),
    [
        pytest.param("request.user == 'ann'", True, id="another field"),
        pytest.param("has(request.resourceAttributes)", True, id="presence of the attributes"),
        pytest.param("request.resourceAttributes.namespace == 'a'", False, id="the field itself"),
        pytest.param("request.?resourceAttributes.namespace.orValue('') == 'a'", False, id="optional"),
        pytest.param("[request].exists(r, r.resourceAttributes.namespace == 'a')", False, id="the request in a list"),
    ],
)
def test_conditions_are_evaluated_once_for_what_they_cannot_tell_apart(expression: str, *, same: bool) -> None:
    user = UserInfo("ann")
    asked = [AuthorizationAttributes(user, "get", resource="pods", namespace=namespace) for namespace in ("a", "b")]
    url = AuthorizationAttributes(user, "get", path="/healthz")
    first, second, third = matched(expression, *asked, url)
    assert (first is second) is same
    assert third is not first
