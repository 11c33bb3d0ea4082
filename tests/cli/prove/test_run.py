"""`replay run --prove`: what a change can ever do, beside what it did to the requests of a log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.prove.symbolic.solver import is_available
from tests.support.short_sample import SAMPLE, write_first_lines

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: images.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: [CREATE]}
  validations:
  - expression: "object.metadata.?name.orValue('') != 'x'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: images.static.k8s.io}
spec: {policyName: images.static.k8s.io, validationActions: [Deny]}
"""
NAMED = "object.metadata.?name.orValue('')"
STRICTER = f"{NAMED} != 'x' && !{NAMED}.contains('a')"


def _run(tmp_path: Path, current: str, candidate: str, *options: str) -> str:
    log = tmp_path / "audit.jsonl"
    write_first_lines(log, 600)
    for name, text in (("current", current), ("candidate", candidate)):
        (tmp_path / name / "vap").mkdir(parents=True)
        (tmp_path / name / "vap" / "images.yaml").write_text(text)
    (cluster,) = SAMPLE.glob("cluster.*")
    sets = ["--current", str(tmp_path / "current"), "--candidate", str(tmp_path / "candidate")]
    result = CliRunner().invoke(app, ["run", str(log), *sets, "--cluster", str(cluster), "--workers", "1", *options])
    assert result.exit_code in {0, 1}, result.output
    return result.stdout


@pytest.mark.slow
@pytest.mark.skipif(not is_available(), reason="z3 is not installed")
@pytest.mark.parametrize(
    ("candidate", "result", "words"),
    [
        (STRICTER, "stricter", "no new admission is possible; the log shows "),
        ("true", "looser", "no new denial is possible; the log shows no difference"),
        (
            f"'x' != {NAMED}",
            "same",
            "nothing new is possible; the log shows no difference",
        ),
        (f"{NAMED} != 'y'", "both", "new denials and new admissions are possible"),
    ],
)
def test_the_log_beside_the_claim(tmp_path: Path, candidate: str, result: str, words: str) -> None:
    changed = POLICY.replace(f"{NAMED} != 'x'", candidate)
    [proof] = json.loads(_run(tmp_path, POLICY, changed, "--prove", "--json"))["proofs"]
    assert (proof["name"], proof["proof"]["result"]) == ("images.static.k8s.io", result)
    assert proof["comparison"].startswith(words)
    assert bool(proof["findings"]) == (result == "stricter")


@pytest.mark.skipif(not is_available(), reason="z3 is not installed")
def test_the_report_has_a_section(tmp_path: Path) -> None:
    shown = _run(tmp_path, POLICY, POLICY.replace("'x'", "'y'"), "--prove", "--full")
    assert "What the log does not show" in shown


def test_without_the_option_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    shown = _run(tmp_path, POLICY, POLICY.replace("'x'", "'y'"), "--json")
    assert "proofs" not in json.loads(shown)
    code = "import sys; import replay.pipeline.run, replay.report.run.json; sys.exit(any(n.startswith('replay.prove') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
