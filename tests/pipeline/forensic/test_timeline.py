"""The history of one object, with what each request changed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from replay.errors import ReplayError
from replay.pipeline.forensic.timeline import object_timeline
from replay.pipeline.options import Focus
from replay.pipeline.scenario import Scenario
from replay.report.timeline_report import Change, timeline_document, timeline_json


def silent(_what: str, _done: int, _total: int) -> None:
    pass


def event(number: int, verb: str, code: int = 200, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/",
        "user": {"username": "alice"},
        "objectRef": {
            "resource": "deployments",
            "apiGroup": "apps",
            "name": "web",
            "namespace": "prod",
            "apiVersion": "v1",
        },
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{number:02}Z",
        "stageTimestamp": f"2026-01-01T00:00:{number:02}Z",
    } | changes


def deployment(replicas: int, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "prod", "resourceVersion": str(replicas), **metadata},
        "spec": {"replicas": replicas},
    }


DENIAL = (
    "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too many"
)
LOG = [
    event(1, "create", 201, responseObject=deployment(1)),
    event(2, "get"),
    event(3, "update", responseObject=deployment(3, labels={"a": "b"})),
    event(4, "patch", 422, responseStatus={"code": 422, "reason": "Invalid", "message": DENIAL}),
    event(5, "delete", responseObject={"kind": "Status", "apiVersion": "v1"}),
]


@pytest.fixture
def source(tmp_path: Path) -> Scenario:
    log = tmp_path / "audit.jsonl"
    log.write_text("\n".join(map(json.dumps, LOG)))
    return Scenario((str(log),))


@pytest.mark.parametrize("kind", ["Deployment", "deployment", "deployments", "deployments.apps"])
def test_events_of_an_object(kind: str, source: Scenario) -> None:
    found = object_timeline(source, kind, "prod/web", silent)
    told = [(event.verb, event.code, event.changes, event.decisions, event.note) for event in found.events]
    assert told == [
        ("create", 201, None, (), "created: metadata, spec"),
        (
            "update",
            200,
            (Change("metadata.labels", None, {"a": "b"}, is_added=True), Change("spec.replicas", 1, 3)),
            (),
            "",
        ),
        ("patch", 422, None, ("denied by p: too many",), ""),
        ("delete", 200, None, (), "deleted"),
    ]
    assert (found.kind, found.reads) == ("Deployment", 1)
    (section,) = timeline_document(found).sections
    assert "~ spec.replicas: 1 → 3" in str(section.blocks)


@pytest.mark.parametrize(
    ("focus", "verbs", "reads"),
    [
        pytest.param(Focus(since="2s"), ["update", "patch", "delete"], 0, id="the end"),
        pytest.param(Focus(until="2026-01-01T00:00:02Z"), ["create"], 1, id="the beginning"),
        pytest.param(Focus(users=("al*",), since="1s"), ["patch", "delete"], 0, id="a user and a period"),
        pytest.param(Focus(users=("nobody*",)), [], 0, id="of nobody"),
    ],
)
def test_what_is_asked_for_alone(focus: Focus, verbs: list[str], reads: int, source: Scenario) -> None:
    """Changes are told against what was left out, too."""
    found = object_timeline(source, "Deployment", "prod/web", silent, focus)
    assert ([event.verb for event in found.events], found.reads, found.focus) == (verbs, reads, focus.text)
    assert all(event.changes for event in found.events if event.verb == "update")
    assert focus.text in timeline_document(found).subtitle


def test_a_dry_run_is_marked_and_leaves_nothing(tmp_path: Path) -> None:
    """Its changes are shown, and what comes after it is compared with what was stored."""
    log = tmp_path / "audit.jsonl"
    dry: dict[str, Any] = {"requestURI": "/apis/apps/v1/namespaces/prod/deployments/web?dryRun=All"}
    events = [
        event(1, "create", 201, responseObject=deployment(1)),
        event(2, "patch", **dry, responseObject=deployment(9)),
        event(3, "delete", requestObject={"dryRun": ["All"]}, responseObject={"kind": "Status", "apiVersion": "v1"}),
        event(4, "patch", responseObject=deployment(2)),
    ]
    log.write_text("\n".join(map(json.dumps, events)))
    found = object_timeline(Scenario((str(log),)), "Deployment", "prod/web", silent)
    assert [(event.dry_run, event.changes, event.note) for event in found.events] == [
        (False, None, "created: metadata, spec"),
        (True, (Change("spec.replicas", 1, 9),), ""),
        (True, None, "deleted"),
        (False, (Change("spec.replicas", 1, 2),), ""),
    ]
    (section,) = timeline_document(found).sections
    assert str(section.blocks).count("(dry run)") == 2
    assert [each["dryRun"] for each in timeline_json(found)["events"]] == [False, True, True, False]


ERRORS = [
    ("kind", "Deploymnt", "prod/web", "the log has no kind `Deploymnt`; did you mean `Deployment`"),
    ("object", "Deployment", "prod/wep", "the log has no object `wep`; did you mean `web`?"),
    ("namespace", "Deployment", "dev/web", "the log has no Deployment `dev/web`, only another object of that name"),
]


@pytest.mark.parametrize(("kind", "name", "wanted"), [case[1:] for case in ERRORS], ids=[case[0] for case in ERRORS])
def test_what_is_not_known(kind: str, name: str, wanted: str, source: Scenario) -> None:
    with pytest.raises(ReplayError, match=re.escape(wanted)):
        object_timeline(source, kind, name, silent)


def test_secrets_are_hidden(tmp_path: Path) -> None:
    ref = {"resource": "secrets", "name": "web", "namespace": "prod", "apiVersion": "v1"}
    bodies = [
        {"kind": "Secret", "metadata": {"name": "web"}, "data": {"a": text}} for text in ("aHVudGVyMg==", "b3RoZXI=")
    ]
    log = tmp_path / "audit.jsonl"
    found = [event(n, "update", objectRef=ref, responseObject=body) for n, body in enumerate(bodies)]
    log.write_text("\n".join(map(json.dumps, found)))
    shown = str(timeline_document(object_timeline(Scenario((str(log),)), "Secret", "prod/web", silent)))
    assert "aHVudGVyMg" not in shown
    assert "b3RoZXI" not in shown
