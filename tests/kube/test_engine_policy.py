"""How decisions name what objects of policy engines decide."""

from __future__ import annotations

from typing import Any

import pytest

from replay.kube.engine_policy import ENGINES, function_of, policy_names


def policy(api_version: str, kind: str, *rules: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": "p", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"rules": list(rules)}}


def rule(name: str, verb: str = "validate") -> dict[str, Any]:
    return {"name": name, verb: {"message": "no"}}


VALIDATES, MUTATES = "validate.kyverno.svc-fail", "mutate.kyverno.svc-fail"

NAMES = [
    ("a constraint", policy("constraints.gatekeeper.sh/v1beta1", "NoPods"), "", ("NoPods/p",)),
    ("its webhook", policy("constraints.gatekeeper.sh/v1beta1", "NoPods"), "validation.gatekeeper.sh", ("NoPods/p",)),
    ("another webhook", policy("constraints.gatekeeper.sh/v1beta1", "NoPods"), "mutation.gatekeeper.sh", ()),
    ("a template", policy("templates.gatekeeper.sh/v1", "ConstraintTemplate"), "", ()),
    ("rules", policy("kyverno.io/v1", "ClusterPolicy", rule("a"), rule("b")), "", ("ClusterPolicy/p/a", "ClusterPolicy/p/b")),
    ("of a namespace", policy("kyverno.io/v1", "Policy", rule("a"), namespace="n"), "", ("Policy/n/p/a",)),
    ("a webhook's rules", policy("kyverno.io/v1", "ClusterPolicy", rule("a"), rule("b", "mutate")), MUTATES, ("ClusterPolicy/p/b",)),
    ("a generated rule", policy("kyverno.io/v1", "ClusterPolicy", rule("autogen-cronjob-a")), VALIDATES, ("ClusterPolicy/p/a",)),
    ("a rule about autogen", policy("kyverno.io/v1", "ClusterPolicy", rule("no-autogen-a")), "", ("ClusterPolicy/p/no-autogen-a",)),
    ("a policy of CEL", policy("policies.kyverno.io/v1", "ValidatingPolicy"), "vpol.validate.kyverno.svc-fail", ("ValidatingPolicy/p",)),
    ("of no engine", policy("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"), "", ()),
]  # fmt: skip


@pytest.mark.parametrize(("value", "webhook", "expected"), [row[1:] for row in NAMES], ids=[row[0] for row in NAMES])
def test_names(value: dict[str, Any], webhook: str, expected: tuple[str, ...]) -> None:
    assert policy_names(value, webhook) == expected


@pytest.mark.parametrize("engine", ENGINES, ids=[engine.name for engine in ENGINES])
def test_a_row_names_functions_that_exist(engine: Any) -> None:
    references = [each for each in engine if isinstance(each, str) and each.startswith("replay.")]
    assert len(references) >= 8
    assert all(callable(function_of(each)) for each in references)
