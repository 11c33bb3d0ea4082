"""Bodies that no server has logged: their requests are set aside with the reason, and the others are decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.json import JSON

SETS = Path(__file__).parents[2] / "sample_audit" / "shop"
CLUSTER = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"team": "x"}}}
DEEP = "deep"


def pod(**spec: JSON) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "a", "uid": "u", "resourceVersion": "7"}
    containers = [{"name": "c", "image": "registry.example.com/a:1", "resources": {"limits": {"memory": "1Gi"}}}]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": containers, **spec}}


def event(audit_id: str, verb: str, body: JSON) -> dict[str, Any]:
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": audit_id,
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/api/v1/namespaces/a/pods",
        "user": {"username": "alice"},
        "objectRef": {"resource": "pods", "namespace": "a", "name": audit_id, "apiVersion": "v1"},
        "responseStatus": {"code": 201 if verb == "create" else 200},
        "requestObject": body,
        "responseObject": body,
        "requestReceivedTimestamp": "2026-11-21T03:00:00.000000Z",
        "stageTimestamp": "2026-11-21T03:00:01.000000Z",
    }


def told(place: str, wrong: str) -> str:
    return f"replay cannot use the request body: it does not match the schema of its kind (`{place}`: {wrong})"


BODIES: list[tuple[str, JSON, str]] = [
    ("metadata", {**pod(), "metadata": "x"}, told("metadata", "expected `object`, got `str`")),
    ("tolerations", pod(tolerations="x"), told("spec.tolerations", "expected `array`, got `str`")),
    ("a toleration", pod(tolerations=["x"]), told("spec.tolerations[0]", "expected `object`, got `str`")),
    ("containers", pod(containers={}), told("spec.containers", "expected `array`, got `object`")),
    (
        "limits",
        pod(containers=[{"name": "c", "resources": {"limits": "x"}}]),
        told("spec.containers[0].resources.limits", "expected `object`, got `str`"),
    ),
    ("text", "x", "replay cannot use the request body: it is not a JSON object"),
    ("depth", pod(unknown=DEEP), "replay cannot use the request body: it is nested deeper than 250 levels"),
]


def invoke(*arguments: object) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output


def written(directory: Path, levels: int) -> tuple[Path, list[object]]:
    """A log in which each body is created and sent again, and what a run of it needs."""
    log, cluster = directory / "audit.jsonl", directory / "cluster.jsonl"
    events = [event("good", "create", pod())]
    for name, body, _ in BODIES:
        events += [event(identity(name), "create", body), event(f"{identity(name)}-update", "update", body)]
    log.write_text("\n".join(map(json.dumps, events)).replace(f'"{DEEP}"', "[" * levels + "]" * levels))
    cluster.write_text(json.dumps(CLUSTER))
    return log, ["--current", SETS / "current", "--candidate", SETS / "candidate", "--cluster", cluster]


def identity(name: str) -> str:
    """The name of a pod, and of the request that creates it."""
    return name.replace(" ", "-")


@pytest.mark.parametrize("levels", [260, 5000])
def test_requests_are_set_aside(levels: int, tmp_path: Path) -> None:
    lines = tmp_path / "outcomes"
    log, sets = written(tmp_path, levels)
    invoke("run", log, *sets, "--outcomes", lines, "--workers", 1)
    found = {line["auditID"]: line["candidate"] for line in map(orjson.loads, lines.read_bytes().splitlines())}
    assert {name for name, line in found.items() if line["verdict"] != "undetermined"} == {"good"}
    assert len(found) == 1 + 2 * len(BODIES)
    for name, _, reason in BODIES:
        reasons = [entry["reason"] for entry in found[identity(name)]["undetermined"]]
        assert [each for each in reasons if each.endswith(reason)], (name, reasons)
        assert [each for each in reasons if "not recorded" in each] == [], name


@pytest.mark.slow
def test_commands_about_one_request_get_by(tmp_path: Path) -> None:
    log, sets = written(tmp_path, 5000)
    store = tmp_path / "store"
    invoke("ingest", log, "--store", store)  # read once for all questions
    for name, *_ in BODIES:
        invoke("explain", identity(name), "--store", store, *sets)
        assert "cannot use the" in invoke("timeline", "pods", f"a/{identity(name)}", "--store", store), name
    invoke("mutations", log, "--current", SETS / "candidate", "--workers", 1)
