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
    return f"the request's body cannot be used: it does not fit its kind, `{place}`: {wrong}"


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
    ("text", "x", "the request's body cannot be used: it is no object"),
    ("depth", pod(unknown=DEEP), "the request's body cannot be used: it is nested deeper than 250 levels"),
]


def invoke(*arguments: object) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output


@pytest.mark.parametrize("levels", [260, 5000])
@pytest.mark.parametrize(("body", "reason"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_one_request_is_set_aside(body: JSON, reason: str, levels: int, tmp_path: Path) -> None:
    log, lines, cluster = tmp_path / "audit.jsonl", tmp_path / "outcomes", tmp_path / "cluster.jsonl"
    events = [event("good", "create", pod()), event("bad", "create", body), event("bad-update", "update", body)]
    log.write_text("\n".join(map(json.dumps, events)).replace(f'"{DEEP}"', "[" * levels + "]" * levels))
    cluster.write_text(json.dumps(CLUSTER))
    sets = ["--current", SETS / "current", "--candidate", SETS / "candidate", "--cluster", cluster]
    invoke("run", log, *sets, "--outcomes", lines, "--workers", 1)
    found = {line["auditID"]: line["candidate"] for line in map(orjson.loads, lines.read_bytes().splitlines())}
    assert found["good"]["verdict"] != "undetermined"
    assert found["bad"]["verdict"] == found["bad-update"]["verdict"] == "undetermined"
    assert any(entry["reason"].endswith(reason) for entry in found["bad"]["undetermined"]), found["bad"]
    assert not any("not recorded" in entry["reason"] for entry in found["bad"]["undetermined"])
    if levels == 5000:
        invoke("explain", "bad", log, *sets)
        assert "cannot be used" in invoke("timeline", "pods", "a/bad", log)
        invoke("mutations", log, "--current", SETS / "candidate", "--workers", 1)
