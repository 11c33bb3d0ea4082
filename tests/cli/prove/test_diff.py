"""`replay diff --prove` and `replay check --prove`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from replay.cli.app import app
from replay.prove.symbolic.solver import is_available

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


def test_check_as_json(sets: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["check", sets[0], "--prove", "--format", "json"])
    [found] = json.loads(result.stdout)["properties"]
    assert (found["policy"], found["name"], found["severity"]) == ("images.static.k8s.io", "never-errors", "info")
    assert found["proof"]["result"] == "same"


def test_warnings_are_annotations(sets: tuple[str, str]) -> None:
    path = Path(sets[0]) / "vap" / "images.yaml"
    path.write_text(POLICY.replace("object.spec.containers.all", "object.kind == 'Pod' || object.spec.containers.all"))
    result = CliRunner().invoke(app, ["check", sets[0], "--prove", "--format", "github"])
    assert "::warning" in result.stdout
    assert "it never denies anything" in result.stdout


@pytest.mark.parametrize(("expression", "code"), [("true || c.image == ''", 0), ("c.env[0].name == ''", 1)])
def test_never_errors(sets: tuple[str, str], expression: str, code: int) -> None:
    path = Path(sets[0]) / "vap" / "images.yaml"
    path.write_text(POLICY.replace("c.image.startsWith('registry.example.com/')", expression))
    result = CliRunner().invoke(app, ["check", sets[0], "--never-errors"])
    assert result.exit_code == code
    assert ("it never errors" in result.stdout) == (code == 0)
    assert ("a request makes it err" in result.stdout) == (code == 1)


@pytest.mark.slow
def test_kinds(sets: tuple[str, str]) -> None:
    """What one policy loosens, another one still refuses."""
    for path in sets:
        other = POLICY.replace("images.static", "others.static").replace("startsWith('reg", "contains('reg")
        (Path(path) / "vap" / "others.yaml").write_text(other)
    changed = Path(sets[1]) / "vap" / "images.yaml"
    changed.write_text(POLICY.replace("startsWith('registry.example.com/')", "contains('registry.example.com/')"))
    result = CliRunner().invoke(app, ["diff", *sets, "--prove", "--format", "json"])
    document = json.loads(result.stdout)
    assert [each["proof"]["result"] for each in document["policies"]] == ["looser", "same"]
    assert [(each["kind"], each["proof"]["result"]) for each in document["kinds"]] == [("Pod", "looser")]
    for path in sets:
        (Path(path) / "vap" / "others.yaml").write_text(POLICY.replace("images.static", "others.static"))
    document = json.loads(CliRunner().invoke(app, ["diff", *sets, "--prove", "--format", "json"]).stdout)
    assert [(each["kind"], each["proof"]["result"]) for each in document["kinds"]] == [("Pod", "same")]


def test_single_files(sets: tuple[str, str]) -> None:
    files = [str(Path(each) / "vap" / "images.yaml") for each in sets]
    document = json.loads(CliRunner().invoke(app, ["diff", *files, "--prove", "--format", "json"]).stdout)
    assert [each["proof"]["result"] for each in document["policies"]] == ["looser"]
