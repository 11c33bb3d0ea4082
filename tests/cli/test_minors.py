"""Two minors without a log: `diff`, `check` and `test` say what one server makes of a set, and what the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions: [{name: c, expression: "request.name != '\\\\ud800'"}]
  validations: [{expression: "object.metadata.name.startsWith('p')"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny]}
"""
CASE = """\
apiVersion: replay/v1
kind: Cases
policies: [set]
cases:
  - name: labels
    object:
      apiVersion: v1
      kind: Pod
      metadata: {name: p, namespace: n, labels: {a: b}}
      spec: {containers: [{name: c, image: i}]}
    expect: {verdict: admitted}
"""


@pytest.fixture
def old_set(tmp_path: Path) -> Path:
    """A set whose match condition compiles until 1.32."""
    (tmp_path / "set" / "api").mkdir(parents=True)
    (tmp_path / "set" / "api" / "p.yaml").write_text(POLICY)
    return tmp_path / "set"


def told(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "300"})
    error = "" if isinstance(result.exception, SystemExit) else result.exception
    return result.exit_code, f"{result.output}{error or ''}"


def test_diff_lists_what_one_server_does_not_compile(old_set: Path) -> None:
    code, text = told("diff", old_set, "--current-version", "1.32", "--candidate-version", "1.33")
    assert (code, text[text.index("~") :]) == (
        1,
        (
            "~ ValidatingAdmissionPolicy/p changed\n"
            "    spec.matchConditions[0].expression changed:\n"
            "      - on 1.32: compiles\n"
            "      + on 1.33: compilation failed: ERROR: <input>:1:17: invalid unicode code point\n"
        ),
    )


def test_diff_of_one_minor_needs_two_sets(old_set: Path) -> None:
    code, text = told("diff", old_set, "--current-version", "1.37")
    assert (code, "no candidate" in text) == (1, True)


def test_diff_proves_on_one_server(old_set: Path) -> None:
    text = told("diff", old_set, "--current-version", "1.32", "--candidate-version", "1.33", "--prove")[1]
    assert "--prove compares sets on one server" in text


@pytest.mark.parametrize(
    ("versions", "code", "shown"),
    [
        ("1.31,1.32", 0, []),
        ("1.32,1.35", 2, ["Kubernetes 1.35: spec.matchConditions[0].expression"]),
        ("1.32,1.35,1.36", 2, ["Kubernetes 1.35, 1.36: spec.matchConditions[0].expression"]),
        ("1.35,1.36", 2, ["ValidatingAdmissionPolicy/p: spec.matchConditions[0].expression"]),
    ],
)
def test_check_says_which_minors_refuse(old_set: Path, versions: str, code: int, shown: list[str]) -> None:
    result, text = told("check", old_set, "--versions", versions)
    assert (result, [each for each in shown if each not in text]) == (code, [])


def test_check_of_a_set_that_one_minor_does_not_read(tmp_path: Path) -> None:
    (tmp_path / "vap").mkdir()
    (tmp_path / "vap" / "p.yaml").write_text(POLICY.replace("name: p}", "name: p.static.k8s.io}"))
    code, text = told("check", tmp_path, "--versions", "1.35,1.37")
    assert (code, "Kubernetes 1.35: Kubernetes 1.35 reads no static manifests" in text) == (2, True)


def test_test_names_the_minor_of_a_case_that_differs(old_set: Path) -> None:
    policy = POLICY.replace("request.name != '\\\\ud800'", "true")
    policy = policy.replace("object.metadata.name.startsWith('p')", "object.metadata.labels.orValue({}).size() > 0")
    (old_set / "api" / "p.yaml").write_text(policy)
    (old_set.parent / "cases.yaml").write_text(CASE)
    code, text = told("test", old_set.parent / "cases.yaml", "--versions", "1.36,1.37")
    assert (code, "labels (Kubernetes 1.37)" in text, "1 passed" in text, "1 failed" in text) == (1, True, True, True)
    code, text = told("test", old_set.parent / "cases.yaml", "--versions", "1.35,1.36")
    assert (code, "Kubernetes" in text, "1 passed" in text) == (0, False, True)
