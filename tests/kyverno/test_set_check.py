"""`replay check` of Kyverno's objects; `rules/policies.jsonl` has what the policy webhook says (kyverno v1.19.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.jmespath.library import kyverno_library
from replay.kyverno.rules.policy_check import policy_refusal, policy_warnings

_ROWS = [
    json.loads(line) for line in Path(__file__).with_name("rules").joinpath("policies.jsonl").read_text().splitlines()
]


def _no_clock() -> Any:
    raise AssertionError


_LIBRARY = kyverno_library(_no_clock, ImageDefaults())


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row["name"])
def test_a_policy_is_refused_in_kyvernos_words(row: dict[str, Any]) -> None:
    assert policy_refusal(row["policy"], _LIBRARY) == row["error"]


def test_what_is_deprecated() -> None:
    condition = {"key": "a", "operator": "In", "value": ["b"]}
    rule = {"name": "r", "validate": {"failureAction": "audit", "deny": {"conditions": [condition]}}}
    policy = {"kind": "Policy", "spec": {"validationFailureAction": "enforce", "rules": [rule]}}
    old = "Validation failure actions enforce/audit are deprecated, use Enforce/Audit instead."
    assert list(policy_warnings(policy)) == [
        (
            "kind",
            "kyverno.io Policy is deprecated and will be removed in a future release; migrate to NamespacedValidatingPolicy and the other namespaced policy types (policies.kyverno.io), see https://kyverno.io/docs/guides/migration-to-cel/",
        ),
        (
            "spec.rules[0].validate",
            'Operator In has been deprecated and will be removed soon. Use these instead: ["AllIn" "AnyIn"]',
        ),
        ("spec.validationFailureAction", f"spec.validationFailureAction: {old}"),
        ("spec.rules[0].validate.failureAction", f"spec.rules[0].validate.failureAction: {old}"),
    ]


_NATIVE = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: a.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "true"}]
"""
_POLICIES = """\
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: old}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: m, patern: {}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: new}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "true"}]
"""


@pytest.mark.parametrize(
    ("beside", "given"),
    [([], "."), (["native.yaml"], "."), ([], "policies.yaml")],
    ids=["alone", "beside native policies", "as a file"],
)
def test_a_set_that_holds_policies_of_kyverno(tmp_path: Path, beside: list[str], given: str) -> None:
    for name in beside:
        tmp_path.joinpath(name).write_text(_NATIVE)
    path, set_ = tmp_path / "policies.yaml", str(tmp_path / given)
    path.write_text(_POLICIES)
    result = CliRunner().invoke(app, ["check", set_])
    assert result.exit_code == 2
    unknown = 'error: ClusterPolicy/old: strict decoding error: unknown field "spec.rules[0].validate.patern"'
    assert f"policies.yaml:8:28: {unknown}" in result.output
    path.write_text(_POLICIES.replace("patern", "pattern"))
    result = CliRunner().invoke(app, ["check", set_])
    assert result.exit_code == 0
    assert "[kyverno-deprecated]" in result.output
    result = CliRunner().invoke(app, ["check", set_, "--silence", "kyverno-deprecated"])
    assert "kyverno-deprecated]" not in result.output


MALFORMED: dict[str, Any] = {
    "filters that are no list": {"match": {"any": 1}},
    "a filter that is not an object": {"match": {"any": [1]}},
    "a validation that is not an object": {"validate": 1, "match": {"resources": {"kinds": ["Pod"]}}},
    "filters by name": {"exclude": {"any": {"a": 1}}, "match": {"resources": {"kinds": ["Pod"]}}},
    "a rule that is a number": 1,
    "a rule that is null": None,
}


@pytest.mark.parametrize("rule", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_rule_registers_nothing_and_is_refused(rule: Any, tmp_path: Path) -> None:
    policy = {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "a"},
        "spec": {"rules": [rule]},
    }
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps(policy))
    compared = CliRunner().invoke(app, ["diff", str(path), str(path)])
    checked = CliRunner().invoke(app, ["check", str(path)])
    assert (compared.exit_code, checked.exit_code) == (0, 2), (compared.output, compared.exception)
    assert "error: ClusterPolicy/a: " in checked.output
