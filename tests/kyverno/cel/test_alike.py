"""Requests that are alike in what a policy reads of them are decided once, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from replay.json import JSON
from replay.kyverno.cel.evaluation import CELResult
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.validating import ValidatingPolicy, validating_policies

IMAGE = {
    "expression": "object.spec.containers.all(c, c.image.startsWith('good/'))",
    "messageExpression": "'wrong image in ' + object.metadata.name",
}
LABEL = {"expression": "has(object.metadata.labels) && 'team' in object.metadata.labels"}
READER: Any = None
"""Nothing of the cluster is read."""


def policy(*validations: dict[str, str], **spec: Any) -> JSON:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "ValidatingPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "autogen": {"podControllers": {"controllers": []}},
            "matchConstraints": {"resourceRules": [rule]},
            "validations": list(validations),
            **spec,
        },
    }


def pod(name: str, image: str = "good/x", **labels: str) -> JSON:
    return {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": name,
        "namespace": "n",
        "operation": "CREATE",
        "userInfo": {"username": "u"},
        "object": {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"image": image}]}},
    }


BAD, WORSE = pod("a", "bad/x"), pod("b", "bad/x")
ROWS: dict[str, tuple[JSON, list[JSON], int]] = {
    "a name that only a message reads": (policy(IMAGE), [pod("a"), pod("b")], 1),
    "another value at a path that is read": (policy(IMAGE), [pod("a"), pod("b", "good/y"), pod("c")], 2),
    "a violation whose message reads the name": (policy(IMAGE), [BAD, WORSE, BAD], 2),
    "a label that is there, and one that is not": (policy(LABEL), [pod("a"), pod("b", team="x"), pod("c")], 2),
    "an audit annotation that reads the name": (
        policy(LABEL, auditAnnotations=[{"key": "name", "valueExpression": "string(object.metadata.name)"}]),
        [pod("a", team="x"), pod("b", team="x"), pod("a", team="x")],
        2,
    ),
    "a condition on the user": (
        policy(LABEL, matchConditions=[{"name": "user", "expression": "request.userInfo.username != 'admin'"}]),
        [pod("a"), {**pod("b"), "userInfo": {"username": "admin"}}, pod("c")],
        2,
    ),
    "another kind of request": (policy(LABEL), [pod("a"), {**pod("b"), "operation": "UPDATE"}], 1),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_alike_requests_are_decided_once_and_the_same(
    row: tuple[JSON, Sequence[JSON], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    written, requests, wanted = row

    def answers(policies: Sequence[ValidatingPolicy]) -> list[CELResult | None]:
        found = zip(requests, policies, strict=True)
        return [each.validate(CELRequest(request, {"metadata": {"name": "n"}}), READER) for request, each in found]

    alone = answers([validating_policies(written, ())[0] for _ in requests])
    evaluations: list[object] = []
    outcome = ValidatingPolicy._outcome

    def counted(self: ValidatingPolicy, *args: Any) -> Any:
        evaluations.append(args)
        return outcome(self, *args)

    monkeypatch.setattr(ValidatingPolicy, "_outcome", counted)
    assert answers([validating_policies(written, ())[0]] * len(requests)) == alone
    assert len(evaluations) == wanted
