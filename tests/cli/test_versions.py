"""`--kubernetes-version` reaches every command that has it: each refuses the sets of the sample for a minor without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from replay.cli.app import app

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
LOG, CURRENT, CANDIDATE = (str(SAMPLE / name) for name in ("audit.jsonl.zst", "current", "candidate"))
SETS = ["--current", CURRENT, "--candidate", CANDIDATE]
STATIC = "reads no static manifests"

COMMANDS = {
    "run": [str(SAMPLE)],
    "accept": [str(SAMPLE), "--reason", "meant", "--print"],
    "check": [CANDIDATE],
    "diff": [CURRENT, CANDIDATE],
    "convert": [str(SAMPLE.parent / "to-static"), "--out", "unwritten"],
    "verify": [LOG, "--current", CURRENT],
    "explain": ["4643ba19-8f5c-4d9d-921a-eb6cb22bdb75", str(SAMPLE)],
    "coverage": [LOG, "--candidate", CANDIDATE],
    "lookup": [LOG, "--static", "--current", CURRENT],
    "mutations": [LOG, "--current", CURRENT],
    "report": [LOG, *SETS],
    "promote": ["team", LOG, "--current", CURRENT],
    "snapshot": ["--candidate", CANDIDATE, "--print"],
    "scan": [str(SAMPLE / "cluster.jsonl.zst"), "--candidate", CANDIDATE],
    "export": ["4643ba19-8f5c-4d9d-921a-eb6cb22bdb75", str(SAMPLE)],
}


def test_these_are_all() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    versioned = {
        name
        for name, command in commands.items()
        if any("--kubernetes-version" in parameter.opts for parameter in command.params)
    }
    assert versioned == {*COMMANDS, "cel", "can-i", "test", "serve"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_version_reaches_the_sets(name: str) -> None:
    result = CliRunner().invoke(app, [name, *COMMANDS[name], "--kubernetes-version", "1.35"])
    told = f"{result.output}{result.exception or ''}"
    assert result.exit_code != 0
    assert STATIC in told
    assert "1.35" in told


@pytest.mark.parametrize(("minor", "value"), [("1.31", "false"), ("1.32", "true")])
def test_the_version_reaches_expressions(minor: str, value: str) -> None:
    expression = "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')"
    result = CliRunner().invoke(app, ["cel", expression, "--kubernetes-version", minor])
    assert value in result.output


CASES = f"""\
apiVersion: replay/v1
kind: Cases
policies: [{CANDIDATE}]
cases:
  - {{name: any, object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}}}, expect: {{verdict: admitted}}}}
"""


def test_the_version_reaches_the_sets_of_cases(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(CASES)
    results = [
        CliRunner().invoke(app, ["test", str(tmp_path / "cases.yaml"), "--kubernetes-version", version])
        for version in ("1.35", "1.37")
    ]
    assert [STATIC in result.output for result in results] == [True, False]
    assert results[0].exit_code == 2


AUTHORIZATION = """apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: w
  webhook:
    timeout: 3s
    authorizedTTL: 30s
    unauthorizedTTL: 30s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: InClusterConfig}
    matchConditions:
    - expression: isSemver('1.0.0')
- type: RBAC
  name: rbac
"""


@pytest.mark.parametrize(("minor", "is_refused"), [("1.31", True), ("1.37", False)])
def test_the_version_reaches_authorization(tmp_path: Path, minor: str, is_refused: bool) -> None:
    (tmp_path / "authorization.yaml").write_text(AUTHORIZATION)
    arguments = ["can-i", "get", "pods", "--as", "ann", "--current", str(tmp_path), "--kubernetes-version", minor]
    result = CliRunner().invoke(app, arguments)
    assert ("undeclared reference to 'isSemver'" in f"{result.output}{result.exception or ''}") is is_refused
