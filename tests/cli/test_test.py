"""`replay test`: what it prints in each format, its exit codes, and watching."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from replay.case.result import CaseReport
from replay.cli.app import app
from replay.errors import ReplayError
from replay.pipeline.cases import CaseOptions
from replay.pipeline.project.watch import watch_cases

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "size(object.data) < 2 || has(object.immutable)", message: too large}]
"""
CASES = """\
apiVersion: replay/v1
kind: Cases
cases:
  - name: one entry
    object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}
    expect: {verdict: admitted}
  - name: two, entries
    object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b, c: d}}
    expect: {verdict: VERDICT}
"""
BAD = "  - {name: nobody, objekt: {}, expect: {verdict: denied}}\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "cases.yaml").write_text(CASES.replace("VERDICT", "denied"))
    (tmp_path / "wrong.yaml").write_text(CASES.replace("VERDICT", "admitted") + BAD)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["test", *arguments, "--policies", "policy.yaml"])
    return result.exit_code, result.output


def test_exit_codes(files: Path) -> None:
    assert [run("cases.yaml")[0], run("wrong.yaml")[0], run("wrong.yaml", "-k", "two")[0]] == [0, 2, 1]
    assert run("wrong.yaml", "-k", "one")[0] == 0
    assert files


TEXT = """\
wrong.yaml .FE

___ difference: wrong.yaml:7 two, entries ___
  verdict: expected admitted, got denied by `small`: too large

___ error: wrong.yaml:10 nobody ___
  unknown field `objekt`; did you mean `object`?
=================== coverage: 6 of 6 reached (100 %) ===================
"""


@pytest.mark.usefixtures("files")
def test_text() -> None:
    lines = run("wrong.yaml", "--coverage")[1].splitlines()
    assert lines[:7] == TEXT.splitlines()[:7]
    assert lines[7].strip("=") == " coverage: 5 of 5 reached (100 %) "
    assert lines[-1].strip("=") == " 1 failed, 1 error, 1 passed "


@pytest.mark.usefixtures("files")
def test_junit() -> None:
    root = ET.fromstring(run("wrong.yaml", "--format", "junit")[1])
    assert root.attrib == {"tests": "3", "failures": "1", "errors": "1"}
    cases = [(case.get("name"), case.get("line"), [each.tag for each in case]) for case in root.iter("testcase")]
    assert cases == [("one entry", "4", []), ("two, entries", "7", ["failure"]), ("nobody", "10", ["error"])]


@pytest.mark.usefixtures("files")
def test_tap_and_github() -> None:
    tap = run("wrong.yaml", "--format", "tap")[1].splitlines()
    assert tap[:4] == [
        "TAP version 14",
        "1..3",
        "ok 1 - wrong.yaml:4 one entry",
        "not ok 2 - wrong.yaml:7 two, entries",
    ]
    github = run("wrong.yaml", "--format", "github")[1].splitlines()
    assert github[0].startswith("::error file=wrong.yaml,line=7,title=replay test%3A two%2C entries::verdict: expected")


def test_json_to_a_file(files: Path) -> None:
    assert run("wrong.yaml", "--format", "json", "--out", "out.json", "--coverage") == (2, "")
    document = json.loads((files / "out.json").read_text())
    assert document["counts"] == {"passed": 1, "failed": 1, "error": 1}
    assert document["coverage"] == {"reached": 5, "total": 5, "unreached": []}


def test_watching_runs_again_after_a_change(files: Path) -> None:
    seen: list[int] = []

    def show(found: CaseReport | ReplayError) -> None:
        seen.append(found.exit_code)

    def sleep(_seconds: float) -> None:
        path = files / "cases.yaml"
        path.write_text(CASES.replace("VERDICT", "admitted") if len(seen) == 1 else "[")

    options = CaseOptions(paths=(files / "cases.yaml",), policies=(files / "policy.yaml",))
    watch_cases(options, show, rounds=range(3), sleep=sleep)
    assert seen == [0, 1, 2]
