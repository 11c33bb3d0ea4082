"""What policies are for, in whatever language they are written."""

from __future__ import annotations

from typing import Any

import pytest

from replay.kube.admissionregistration import ManifestSet, MatchResources, Rule, ValidatingAdmissionPolicy
from replay.pipeline.diff_requests import matched_resources


def _rules(*kinds: str) -> dict[str, Any]:
    match = {"any": [{"resources": {"kinds": list(kinds)}}]}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p"},
        "spec": {"rules": [{"name": "r", "match": match, "validate": {"pattern": {}}}]},
    }


def _cel(groups: list[str], resources: list[str]) -> dict[str, Any]:
    rule = {"apiGroups": groups, "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources}
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "ValidatingPolicy",
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": []},
    }


_ROWS = [
    ("kinds", _rules("Service", "apps/v1/Deployment"), {"ClusterPolicy/p/r": {"/services", "apps/deployments"}}),
    ("pods and their controllers", _rules("Pod", "Deployment"), {"ClusterPolicy/p/r": {"/pods"}}),
    ("a subresource", _rules("Pod/exec"), {"ClusterPolicy/p/r": {"/pods/exec"}}),
    (
        "CEL",
        _cel(["", "apps"], ["pods", "deployments"]),
        {"ValidatingPolicy/p": {"/pods", "/deployments", "apps/pods"}},
    ),
    (
        "an exception",
        {"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": {"name": "e"}, "spec": {}},
        {},
    ),
]


@pytest.mark.parametrize(("value", "expected"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS])
def test_objects_of_an_engine(value: dict[str, Any], expected: dict[str, set[str]]) -> None:
    assert matched_resources(ManifestSet(engine_objects=(value,))) == expected


def test_a_native_policy() -> None:
    constraints = MatchResources(resource_rules=(Rule(("CREATE",), ("",), ("v1",), ("services",)),))
    policy = ValidatingAdmissionPolicy("a", static=False, match_constraints=constraints)
    assert matched_resources(ManifestSet((policy,))) == {"a": {"/services"}}
