"""`replay coverage` and `replay verify` from the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import orjson
import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from replay.cli.basis import coverage, verify
from replay.errors import AuditLogError, ReplayError

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
EVENT = {
    "kind": "Event",
    "apiVersion": "audit.k8s.io/v1",
    "level": "Metadata",
    "auditID": "1",
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/namespaces/shop/pods",
    "verb": "create",
    "user": {"username": "alice\x1b[31m"},
    "objectRef": {"resource": "pods", "namespace": "shop", "name": "web", "apiVersion": "v1"},
    "responseStatus": {"code": 201},
    "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
    "stageTimestamp": "2026-01-01T00:00:00.100000Z",
}


def run(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command("coverage")(coverage)
    app.command("verify")(verify)
    return CliRunner().invoke(app, [*map(str, arguments), "--workers", "1"], env={**os.environ, "COLUMNS": "160"})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(orjson.dumps(EVENT) + b"\n")
    return path


def test_what_is_missing_and_the_policy(log: Path, tmp_path: Path) -> None:
    """The one request is not decided, and the policy records its like."""
    policy = tmp_path / "policy.yaml"
    result = run("coverage", log, "--candidate", SAMPLE / "candidate", "--policy", policy, "--full")
    assert result.exit_code == 0, result.output
    assert "0 % of 1 request can be determined for candidate." in result.output
    assert "create pods at Metadata" in result.output
    document = yaml.safe_load(policy.read_text())
    assert (document["apiVersion"], document["kind"]) == ("audit.k8s.io/v1", "Policy")
    assert {rule["level"] for rule in document["rules"]} == {"None", "Metadata", "RequestResponse"}
    only = run("coverage", log, "--candidate", SAMPLE / "candidate", "--policy", "-")
    assert yaml.safe_load(only.output) == document


def test_any_policy(log: Path) -> None:
    """Without a set all of a request counts."""
    value = json.loads(run("coverage", log, "--json").output)
    assert value["decided"] == {"requests": 0, "of": 1}
    assert value["kinds"] == [
        {"resource": "pods", "verb": "create", "level": "Metadata", "decided": 0, "undetermined": 1}
    ]
    assert {missing["path"] for missing in value["missing"]} == {"object", "namespaceObject"}


def test_verify_without_anything_to_compare(log: Path) -> None:
    """Nothing contradicts the set, and that is said for what it is."""
    result = run("verify", log, "--current", SAMPLE / "current")
    assert result.exit_code == 0, result.output
    assert "The log records no decision that this set could have made, and the set makes none." in result.output
    assert "\x1b" not in result.output


ERRORS: list[tuple[str, tuple[str, ...], type[ReplayError], str]] = [
    (
        "verify without a set",
        ("verify", "LOG"),
        ReplayError,
        "no manifest set: give --current with the set that was in force",
    ),
    ("no such log", ("coverage", "nowhere.jsonl"), AuditLogError, "no such file"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_errors(arguments: tuple[str, ...], kind: type[ReplayError], message: str, log: Path) -> None:
    """One line each."""
    result = run(*(str(log) if argument == "LOG" else argument for argument in arguments))
    assert isinstance(result.exception, kind)
    assert result.exception.message == message
