"""A policy that repeats a Secret's data wherever it can: nothing that any command prints or writes shows them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from replay.cli.app import app

OLD, NEW, PLAIN = "hunter2-old", "hunter2-new", "hunter2-plain"
SECRETS = [form for text in (OLD, NEW, PLAIN) for form in (text, base64.b64encode(text.encode()).decode())]

PLAINLY = "(has(object.stringData) ? string(object.stringData.plain) : 'none')"
MESSAGE = f"'pw is' + string(object.data.password) + {PLAINLY}"
VALIDATING = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: leak.static.k8s.io}}
spec:
  matchConstraints: {{resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [secrets]}}]}}
  validations: [{{expression: "string(object.data.password) == ''", messageExpression: "{MESSAGE}"}}]
  auditAnnotations: [{{key: leak, valueExpression: "string(object.data.password)"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: leak.static.k8s.io}}
spec: {{policyName: leak.static.k8s.io, validationActions: [ACTIONS]}}
"""
MUTATING = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: copy.static.k8s.io}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [secrets]}]}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'pw': string(object.data.password), 'plain': PLAINLY}}]"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: copy.static.k8s.io}
spec: {policyName: copy.static.k8s.io}
"""


def secret(text: str, version: int) -> dict[str, Any]:
    metadata = {"name": "s", "namespace": "a", "uid": "u", "resourceVersion": str(version)}
    data = {"password": base64.b64encode(text.encode()).decode(), "plain": base64.b64encode(PLAIN.encode()).decode()}
    return {"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "data": data, "type": "Opaque"}


def event(number: int, verb: str, code: int, sent: Any, stored: Any, **more: Any) -> dict[str, Any]:
    at = f"2026-11-21T03:00:{number:02}"
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/api/v1/namespaces/a/secrets",
        "user": {"username": "alice"},
        "objectRef": {"resource": "secrets", "namespace": "a", "name": "s", "apiVersion": "v1"},
        "responseStatus": {"code": code},
        "requestObject": sent,
        "responseObject": stored,
        "requestReceivedTimestamp": f"{at}.000000Z",
        "stageTimestamp": f"{at}.100000Z",
        **more,
    }


def events() -> list[dict[str, Any]]:
    failure = json.dumps([{"message": f"pw is{NEW}", "policy": "gone", "binding": "b", "expressionIndex": 0}])
    noted = {"validation.policy.admission.k8s.io/validation_failure": failure, "leak.static.k8s.io/leak": f"was {OLD}"}
    denial = f"secrets \"s\" is forbidden: ValidatingAdmissionPolicy 'leak.static.k8s.io' with binding 'b' denied request: {NEW}"
    status = {"code": 422, "reason": "Invalid", "message": denial, "status": "Failure"}
    created = {**secret(OLD, 1), "stringData": {"plain": PLAIN}}
    return [
        event(1, "create", 201, created, secret(OLD, 1)),
        event(2, "update", 200, secret(NEW, 1), secret(NEW, 2), annotations=noted),
        event(3, "update", 422, {**secret(NEW, 2), "stringData": {"plain": PLAIN}}, None, responseStatus=status),
        event(4, "patch", 200, {"stringData": {"plain": PLAIN}}, secret(NEW, 3)),
    ]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    for name, actions in (("current", "Warn, Audit"), ("candidate", "Deny")):
        for plugin, text in (
            ("vap", VALIDATING.replace("ACTIONS", actions)),
            ("map", MUTATING.replace("PLAINLY", PLAINLY)),
        ):
            if (name, plugin) != ("current", "map"):
                (tmp_path / name / plugin).mkdir(parents=True)
                (tmp_path / name / plugin / "set.yaml").write_text(text)
    (tmp_path / "audit.jsonl").write_text("\n".join(map(json.dumps, events())))
    (tmp_path / "cluster.jsonl").write_text('{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a"}}')
    return tmp_path


COMMANDS = [
    [
        "run",
        "SCENARIO",
        "--report",
        "OUT/report",
        "--outcomes",
        "OUT/outcomes",
        "--rejects",
        "OUT/rejects",
        "--workers",
        "1",
    ],
    ["run", "SCENARIO", "--json", "--workers", "1"],
    ["verify", "SCENARIO", "--workers", "1"],
    ["verify", "SCENARIO", "--json", "--workers", "1"],
    ["report", "SCENARIO", "--out", "OUT/weekly", "--workers", "1"],
    ["explain", "id-2", "SCENARIO"],
    ["explain", "id-3", "SCENARIO", "--json"],
    ["explain", "id-4", "SCENARIO", "--json"],
    ["lookup", "SCENARIO"],
    ["lookup", "SCENARIO", "--action", "warn", "--json"],
    ["lookup", "SCENARIO", "--action", "annotate"],
    ["timeline", "Secret", "a/s", "SCENARIO"],
    ["timeline", "Secret", "a/s", "SCENARIO", "--json"],
    ["mutations", "SCENARIO", "--json", "--workers", "1"],
    ["sql", "select * from decision", "SCENARIO", "--format", "csv"],
    ["sql", "select * from request", "SCENARIO", "--json"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(row[:1] + row[2:3]) for row in COMMANDS])
def test_nothing_shows_what_a_secret_holds(command: list[str], scenario: Path) -> None:
    out = scenario / "out"
    out.mkdir()
    arguments = [each.replace("SCENARIO", str(scenario)).replace("OUT", str(out)) for each in command]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in (0, 1), done.output
    texts = [done.output, *(path.read_text() for path in out.rglob("*") if path.is_file())]
    assert [(secret, text) for secret in SECRETS for text in texts if secret in text] == []


def test_all_of_it_is_shown_where_that_is_asked_for(scenario: Path) -> None:
    lines = scenario / "outcomes"
    done = CliRunner().invoke(app, ["run", str(scenario), "--outcomes", str(lines), "--workers", "1", "--no-redact"])
    assert isinstance(done.exception, SystemExit), done.exception
    assert f"pw is{SECRETS[3]}{PLAIN}" in lines.read_text()
