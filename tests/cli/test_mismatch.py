"""`replay run` with a baseline that does not match the log: the first line warns, and names the likely cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from tests.support.log_lines import event

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %(name)s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "%(expression)s", message: refused}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: %(name)s, validationActions: [Audit]}
"""
FALSE, LABELLED = "1 > 2", "namespaceObject.metadata.?labels['team'].hasValue()"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}


def pods(policy: str, numbers: range) -> list[bytes]:
    """Creations of pods that one policy audits."""
    lines = []
    for number in numbers:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}", "namespace": "n"}}
        failure = {
            "message": "refused",
            "policy": policy,
            "binding": "b",
            "expressionIndex": 0,
            "validationActions": ["Audit"],
        }
        annotations = {"validation.policy.admission.k8s.io/validation_failure": json.dumps([failure])}
        lines.append(event(number, requestObject=pod, responseObject=pod, annotations=annotations))
    return lines


CASES = [
    pytest.param(
        pods("b", range(20)),
        FALSE,
        [],
        "The baseline does not match the log: 0 of 20 decisions agree. The candidate matches the log better (20 of 20 decisions): "
        "the sets are probably swapped. Run `replay verify` before you use this result. ",
        id="the sets are swapped",
    ),
    pytest.param(
        [*pods("c", range(20)), *pods("a", range(20, 40))],
        FALSE,
        [],
        "The baseline does not match the log: 20 of 40 decisions agree. Another set was probably in force until 2026-01-01 00:00:20 UTC. "
        "Run `replay verify` before you use this result. ",
        id="another set was in force at first",
    ),
    pytest.param(
        [*pods("a", range(20)), *pods("c", range(20, 40))],
        FALSE,
        [],
        "The baseline does not match the log: 20 of 40 decisions agree. Another set was probably in force after 2026-01-01 00:00:19 UTC. "
        "Run `replay verify` before you use this result. ",
        id="another set was in force later",
    ),
    pytest.param(
        pods("c", range(20)),
        FALSE,
        [],
        "The baseline does not match the log: 0 of 20 decisions agree. Another set was probably in force. "
        "Run `replay verify` before you use this result. ",
        id="another set was in force all the time",
    ),
    pytest.param(
        pods("a", range(20)),
        LABELLED,
        [],
        "The snapshot is missing: 20 of 20 decisions of the log are undetermined without it. "
        "Take one with `replay snapshot` and give it with --cluster. ",
        id="the snapshot is missing",
    ),
    pytest.param(pods("a", range(20)), LABELLED, ["--cluster", "cluster.jsonl"], "", id="the baseline matches"),
]  # fmt: skip


@pytest.mark.parametrize(("events", "expression", "options", "warning"), CASES)
def test_the_first_line_names_the_cause(
    events: list[bytes],
    expression: str,
    options: list[str],
    warning: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name, "api").mkdir(parents=True)
        Path(name, "api", "policy.yaml").write_text(POLICY % {"name": name, "expression": expression}, encoding="utf-8")
    Path("audit.jsonl").write_bytes(b"\n".join(events) + b"\n")
    Path("cluster.jsonl").write_text(json.dumps(NAMESPACE), encoding="utf-8")
    command = ["run", "audit.jsonl", "--current", "a", "--candidate", "b", *options]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "2000"}, catch_exceptions=False)
    verdict = result.stdout.splitlines()[1]
    answer = verdict.index("None of ")
    assert (verdict[:answer], result.exit_code) == (warning, 0)
