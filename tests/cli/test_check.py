from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from replay.cli.check import check
from replay.cli.diff import diff

GOOD = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: p.static.k8s.io
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  validations:
  - expression: object.metadata.name != 'x'
"""
UNBOUND = "no binding names this policy"
BAD = GOOD.replace("CREATE", "create")
REASON = 'spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: "create": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"'


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    (tmp_path / "set" / "vap").mkdir(parents=True)
    return tmp_path / "set"


def run(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command("check")(check)
    app.command("diff")(diff)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write(manifests: Path, text: str) -> Path:
    file = manifests / "vap" / "a.yaml"
    file.write_text(text)
    return file


def test_text(manifests: Path) -> None:
    file = write(manifests, BAD)
    result = run("check", manifests)
    subject = "ValidatingAdmissionPolicy/p.static.k8s.io"
    assert result.output == (
        f"{file}:8:57: error: {subject}: {REASON} [server] (the server stops here)\n"
        f"{manifests}: refused, 1 error, 0 warnings; the server prints:\n"
        f'    error loading {file}: ValidatingAdmissionPolicy "p.static.k8s.io": {REASON}\n'
    )
    assert result.exit_code == 2


def test_warnings_do_not_fail(manifests: Path) -> None:
    file = write(manifests, GOOD)
    result = run("check", manifests)
    assert result.output.splitlines()[0] == (
        f"{file}:4:9: warning: ValidatingAdmissionPolicy/p.static.k8s.io: {UNBOUND} [policy-without-binding]"
    )
    assert result.output.splitlines()[-1] == f"{manifests}: accepted, 0 errors, 1 warning"
    assert result.exit_code == 0
    silenced = run("check", manifests, "--silence", "policy-without-binding")
    assert silenced.output.splitlines()[-1] == f"{manifests}: accepted, 0 errors, 0 warnings, 1 silenced"


def test_json_of_one_plugin(manifests: Path) -> None:
    write(manifests, BAD)
    result = run("check", manifests / "vap", "--plugin", "ValidatingAdmissionPolicy", "--format", "json")
    answered = json.loads(result.output)
    assert (answered["ok"], answered["hash"], answered["objects"]) == (False, None, [])
    assert answered["error"] == f'error loading DIR/a.yaml: ValidatingAdmissionPolicy "p.static.k8s.io": {REASON}'
    assert [(each["line"], each["column"], each["first"]) for each in answered["findings"]] == [(8, 57, True)]
    write(manifests, GOOD)
    answered = json.loads(
        run("check", manifests / "vap", "--plugin", "ValidatingAdmissionPolicy", "--format", "json").output
    )
    assert (answered["ok"], answered["error"]) == (True, None)
    assert [(each["kind"], each["name"]) for each in answered["objects"]] == [
        ("ValidatingAdmissionPolicy", "p.static.k8s.io")
    ]
    assert answered["objects"][0]["defaulted"]["spec"]["failurePolicy"] == "Fail"


def test_several_sets(manifests: Path) -> None:
    write(manifests, GOOD)
    answered = json.loads(run("check", manifests, manifests, "--format", "json").output)
    assert (answered["ok"], len(answered["sets"])) == (True, 2)


def test_github(manifests: Path) -> None:
    file = write(manifests, BAD)
    line, *_ = run("check", manifests, "--format", "github").output.splitlines()
    message = REASON.replace("%", "%25")
    assert (
        line
        == f"::error file={file},line=8,col=57,title=replay%3A server::ValidatingAdmissionPolicy/p.static.k8s.io: {message}"
    )


def test_sarif(manifests: Path) -> None:
    file = write(manifests, GOOD)
    log = json.loads(run("check", manifests, "--format", "sarif").output)
    [result] = log["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("policy-without-binding", "warning")
    region = {"startLine": 4, "startColumn": 9}
    assert result["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": str(file)}, "region": region}}]
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == ["policy-without-binding"]


def test_hash_and_drift(manifests: Path, tmp_path: Path) -> None:
    write(manifests, GOOD)
    printed = run("check", manifests / "vap", "--plugin", "ValidatingAdmissionPolicy", "--hash").output
    assert printed.startswith("sha256:")
    assert len(printed) == len("sha256:\n") + 64
    other = tmp_path / "other"
    (other / "vap").mkdir(parents=True)
    write(other, GOOD)
    assert run("check", "--drift", manifests, other).exit_code == 0
    write(other, BAD)
    result = run("check", "--drift", manifests, other)
    assert (result.exit_code, len(result.output.splitlines())) == (1, 2)


def test_diff(manifests: Path, tmp_path: Path) -> None:
    write(manifests, GOOD)
    other = tmp_path / "other"
    (other / "vap").mkdir(parents=True)
    write(other, GOOD.replace("pods", "secrets"))
    assert run("diff", manifests, manifests).output == "the sets do not differ\n"
    result = run("diff", manifests, other, "--format", "json")
    [changed] = json.loads(result.output)
    assert (changed["name"], changed["change"], result.exit_code) == ("p.static.k8s.io", "changed", 1)


@pytest.mark.parametrize("command", ["check", "diff"])
def test_help_says_what_it_is_for(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "?" in result.output
