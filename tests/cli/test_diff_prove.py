"""`replay diff --prove` and `replay check --prove`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from replay.cli.app import app
from replay.prove.symbolic.solving.solver import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="z3 is not installed")

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: images.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}
  validations:
  - expression: object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: images.static.k8s.io}
spec: {policyName: images.static.k8s.io, validationActions: [Deny]}
"""


@pytest.fixture
def sets(tmp_path: Path) -> tuple[str, str]:
    for name, text in (("old", POLICY), ("new", POLICY.replace("com/'", "com'"))):
        directory = tmp_path / name / "vap"
        directory.mkdir(parents=True)
        (directory / "images.yaml").write_text(text)
    return str(tmp_path / "old"), str(tmp_path / "new")


def test_json(sets: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["diff", *sets, "--prove", "--format", "json"])
    assert result.exit_code == 1
    policy = json.loads(result.stdout)["policies"][0]
    assert (policy["name"], policy["proof"]["result"], policy["proof"]["reason"]) == (
        "images.static.k8s.io",
        "looser",
        "",
    )
    witness = policy["proof"]["witnesses"][0]
    assert (witness["current"], witness["candidate"]) == ("denied", "admitted")
    assert "object.spec.containers[0].image" in witness["marked"]


def test_text_and_saved_cases(sets: tuple[str, str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["diff", *sets, "--prove", "--save-cases", str(tmp_path / "cases")])
    assert "images.static.k8s.io: only looser up to 2 items in each list" in result.stdout
    assert "# <- matters" in result.stdout
    path = tmp_path / "cases" / "images.static.k8s.io-looser.yaml"
    [case] = yaml.safe_load(path.read_text())["cases"]
    assert case["expect"] == {"verdict": "admitted"}
    runs = [CliRunner().invoke(app, ["test", str(path), "--policies", each]).exit_code for each in sets]
    assert runs == [1, 0]
    assert not case["object"]["spec"]["containers"][0]["image"].startswith("registry.example.com/")


def test_markdown(sets: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["diff", *sets, "--prove", "--format", "markdown"])
    assert "```yaml" in result.stdout


def test_sets_that_do_not_differ(sets: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["diff", sets[0], sets[0], "--prove", "--format", "json"])
    document = json.loads(result.stdout)
    assert (result.exit_code, document["differences"]) == (0, [])
    assert [each["proof"]["result"] for each in document["policies"]] == ["same"]


def test_check(sets: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["check", sets[0], "--prove"])
    assert result.exit_code == 0
    assert "images.static.k8s.io: info: it never errors" in result.stdout
