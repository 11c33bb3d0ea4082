"""Requests that are alike in what the code of a template reads of them are decided once, and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from replay.gatekeeper import cel_template, review
from replay.gatekeeper.engine import GatekeeperEngine
from replay.json import JSON
from tests.gatekeeper.test_sets import REQUESTS, SETS, _rows

IMAGES = """
package t
violation[{"msg": msg}] {
  container := input.review.object.spec.containers[_]
  not startswith(container.image, input.parameters.registry)
  msg := sprintf("%v: %v", [input.review.object.metadata.name, container.image])
}
"""
LABEL = """
package t
violation[{"msg": "no label"}] { not input.review.object.metadata.labels.team }
"""
USER = """
package t
violation[{"msg": input.review.userInfo.username}] { input.review.operation == "CREATE" }
"""
COPY = """
package t
violation[{"msg": msg}] {
  msg := object.get(input, ["review", "object", "metadata", "name"], "?")
}
"""
DEFAULT = """
package t
violation[{"msg": "registry"}] {
  registry := object.get(object.get(input, "parameters", {}), "registry", "none")
  not startswith(object.get(input, ["review", "object", "spec", "containers", 0, "image"], ""), registry)
}
"""
REPLACED = """
package t
named { input.review.object.metadata.name == "a" }
violation[{"msg": "a"}] { named with input.review.object.spec as {} }
"""
CEL_IMAGES = {
    "validations": [
        {
            "expression": "variables.anyObject.spec.containers.all(c, c.image.startsWith(variables.params.registry))",
            "messageExpression": "'wrong image in ' + variables.anyObject.metadata.name",
        }
    ]
}


def objects(code: str | dict[str, Any]) -> list[JSON]:
    source = {"rego": code} if isinstance(code, str) else {"code": [{"engine": "K8sNativeValidation", "source": code}]}
    schema = {"type": "object", "properties": {"registry": {"type": "string"}}}
    return [
        {
            "apiVersion": "templates.gatekeeper.sh/v1",
            "kind": "ConstraintTemplate",
            "metadata": {"name": "t"},
            "spec": {
                "crd": {"spec": {"names": {"kind": "T"}, "validation": {"openAPIV3Schema": schema}}},
                "targets": [{"target": "admission.k8s.gatekeeper.sh", **source}],
            },
        },
        {
            "apiVersion": "constraints.gatekeeper.sh/v1beta1",
            "kind": "T",
            "metadata": {"name": "c"},
            "spec": {"parameters": {"registry": "good/"}},
        },
    ]


def pod(name: str, image: str, **labels: Any) -> JSON:
    value = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    return {
        "uid": "",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": name,
        "operation": "CREATE",
        "userInfo": {"username": "u"},
        "object": value,
    }


A, B, OTHER = pod("a", "good/x"), pod("b", "good/x"), pod("c", "good/y")
BAD, WORSE = pod("a", "bad/x"), pod("b", "bad/x")
ROWS: dict[str, tuple[str | dict[str, Any], list[JSON], int]] = {
    "a name that only a message reads is of no account where nothing is violated": (IMAGES, [A, B], 1),
    "another value at a path that is read": (IMAGES, [A, OTHER, B], 2),
    "a violation whose message reads the name": (IMAGES, [BAD, WORSE, BAD], 2),
    "an absent label, and one that is there": (LABEL, [A, B, pod("c", "x", team="x"), pod("d", "y", team="x")], 2),
    "false, zero and an empty text are not alike": (
        LABEL,
        [pod("a", "x", team=False), pod("b", "x", team=0), pod("c", "x", team=""), pod("d", "x", team=False)],
        3,
    ),
    "1, 1.0 and true are not alike": (
        LABEL,
        [pod("a", "x", team=1), pod("b", "x", team=1.0), pod("c", "x", team=True), pod("d", "x", team=1)],
        3,
    ),
    "another user": (USER, [A, {**A, "userInfo": {"username": "v"}}, A], 2),
    "the input as a whole": (COPY, [A, B, A], 2),
    "a default of a parameter, asked of the input as a whole": (DEFAULT, [A, B, BAD], 2),
    "a part of the input that is not replaced": (REPLACED, [A, B, OTHER], 3),
    "CEL: a name that only a message reads is of no account where nothing is violated": (CEL_IMAGES, [A, B], 1),
    "CEL: another value at a path that is read": (CEL_IMAGES, [A, OTHER, B], 2),
    "CEL: a violation whose message reads the name": (CEL_IMAGES, [BAD, WORSE, BAD], 2),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_alike_requests_are_decided_once_and_the_same(
    row: tuple[str | dict[str, Any], Sequence[JSON], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, requests, wanted = row
    alone = [GatekeeperEngine(objects(code), ()).results(None, each) for each in requests]
    evaluations: list[object] = []

    def counted(decide: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            evaluations.append(arguments)
            return decide(*arguments)

        return counting

    monkeypatch.setattr(review, "_violations_by_rego", counted(review._violations_by_rego))
    monkeypatch.setattr(cel_template._Validator, "decided", counted(cel_template._Validator.decided))
    engine = GatekeeperEngine(objects(code), ())
    assert engine.refused() == []
    assert [engine.results(None, each) for each in requests] == alone
    assert len(evaluations) == wanted


@pytest.mark.parametrize("row", SETS, ids=[row["set"] for row in SETS])
def test_a_set_decides_the_same_in_any_order(row: Any) -> None:
    cluster = _rows("cluster.jsonl")
    one, other = GatekeeperEngine(row["objects"], cluster), GatekeeperEngine(row["objects"], cluster)
    first = {name: one.results(request, request) for name, request in REQUESTS.items()}
    again = {name: one.results(request, request) for name, request in REQUESTS.items()}
    backwards = {name: other.results(request, request) for name, request in reversed(REQUESTS.items())}
    assert again == first
    assert backwards == first
