"""One new policy alone: on top of the baseline, or as the candidate, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: "object.spec.replicas <= 1", message: one is enough}]
"""
BINDING = """\
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small}
spec: {policyName: small, validationActions: [Deny]}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY + BINDING, "utf-8")
    return path


def run(sample: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["run", str(sample), *arguments, "--workers", "1"], env={"COLUMNS": "300"})
    return result.exit_code, result.output


def test_a_policy_on_top_of_the_current_set(short_sample: Path, policy: Path, tmp_path: Path) -> None:
    saved = tmp_path / "cases"
    code, text = run(short_sample, "--add", str(policy), "--save-cases", str(saved), "--json")
    summary = json.loads(text)
    assert code == 1
    assert summary["outcomes"]["newly_denied"] > 0
    files = sorted(saved.iterdir())
    assert [path.name for path in files] == ["newly-denied-small-deployments-apps.yaml"]
    tested = CliRunner().invoke(app, ["test", str(saved)])
    assert (tested.exit_code, "1 passed" in tested.output) == (0, True)
    policy.write_text((POLICY + BINDING).replace("<= 1", "<= 100"), "utf-8")
    tested = CliRunner().invoke(app, ["test", str(saved)])
    assert (tested.exit_code, "expected denied, got admitted" in tested.output) == (1, True)


def test_what_is_taken_for_granted_is_said(short_sample: Path, policy: Path) -> None:
    policy.write_text(POLICY, "utf-8")
    code, text = run(short_sample, "--candidate", str(policy))
    assert code == 0
    told = " ".join(text.split())
    assert "treated as policies of the API: `small` (the name of a static manifest ends with `.static.k8s.io`)" in told
    assert "`small` has no binding in this file, without which it decides nothing" in told


def test_either_on_top_or_instead(short_sample: Path, policy: Path) -> None:
    result = CliRunner().invoke(app, ["run", str(short_sample), "--candidate", str(policy), "--add", str(policy)])
    assert "--add puts a policy on top of the baseline, and --candidate is another one" in str(result.exception)


@pytest.mark.parametrize("option", ["--add", "--apply"])
def test_explain_takes_the_sets_of_run(option: str, short_sample: Path, policy: Path) -> None:
    """The next step of a run can be asked with the same options."""
    _, text = run(short_sample, option, str(policy), "--json")
    denied = next(row for row in json.loads(text)["rows"] if row["policy"] == "small")
    result = CliRunner().invoke(app, ["explain", denied["auditID"], str(short_sample), option, str(policy), "--json"])
    denials = json.loads(result.output)["sets"]["candidate"]["denials"]
    assert [each["policy"] for each in denials] == ["small"]
