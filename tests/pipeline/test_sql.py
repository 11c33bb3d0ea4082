"""SQL over a log: what runs, what is refused, and what is kept out of sight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replay.errors import ReplayError
from replay.pipeline.scenario import Scenario
from replay.pipeline.sql import question_names, run_query

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.sig"
EVENT = {
    "kind": "Event",
    "apiVersion": "audit.k8s.io/v1",
    "level": "RequestResponse",
    "auditID": "id-1",
    "stage": "ResponseComplete",
    "verb": "create",
    "requestURI": f"/?token={TOKEN}",
    "user": {"username": "alice"},
    "objectRef": {"resource": "secrets", "name": "s", "namespace": "prod", "apiVersion": "v1"},
    "responseStatus": {"code": 201},
    "requestObject": {"kind": "Secret", "data": {"a": "aHVudGVyMg=="}},
    "requestReceivedTimestamp": "2026-01-01T00:00:00Z",
    "stageTimestamp": "2026-01-01T00:00:00Z",
}


def silent(_what: str, _done: int, _total: int) -> None:
    pass


@pytest.fixture
def source(tmp_path: Path) -> Scenario:
    log = tmp_path / "audit.jsonl"
    log.write_text(json.dumps(EVENT))
    return Scenario((str(log),))


@pytest.mark.parametrize("name", question_names())
def test_every_question_runs(name: str, source: Scenario) -> None:
    run_query(source, name, {"resource": "secrets", "object": "s", "namespace": "prod", "kind": "user"}, silent)


def test_parameters_are_variables_and_named(source: Scenario) -> None:
    text = "select getvariable('a') as a, $b + 1 as b, list_contains($c, 'x') as c"
    rows = run_query(source, text, {"a": "1", "b": "2", "c": '["x"]'}, silent)
    assert rows.row(0) == ("1", 3, True)


def test_a_file_is_a_query(source: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "mine.sql"
    path.write_text("select verb from request")
    assert run_query(source, str(path), {}, silent).rows() == [("create",)]


REFUSED = [
    ("writes", "copy request to 'out.csv'", "only SELECT is run: a store is read-only"),
    ("settings", "set threads = 1", "only SELECT is run: a store is read-only"),
    ("several", "select 1; select 2", "one query is run at a time, not 2"),
    ("other files", "select * from read_text('/etc/hostname')", "file system operations are disabled"),
    ("other files by name", "select * from '/etc/hostname.csv'", "file system operations are disabled"),
    ("extensions", "install httpfs", "only SELECT is run: a store is read-only"),
    ("unknown columns", "select nothing from request", "Binder Error"),
    ("missing parameters", "select $who", "the query wants --param who=…"),
    ("names", "lookpu", "no query `lookpu`; did you mean `lookup`?"),
]


@pytest.mark.parametrize(("text", "wanted"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(text: str, wanted: str, source: Scenario) -> None:
    with pytest.raises(ReplayError) as error:
        run_query(source, text, {}, silent)
    assert wanted in str(error.value)
    assert "\n" not in str(error.value)


def test_secrets_are_hidden_unless_asked_for(source: Scenario) -> None:
    text = "select request_object::varchar, request_uri from request"
    assert run_query(source, text, {}, silent).row(0) == (None, "/?token=(redacted)")
    body, uri = run_query(source, text, {}, silent, redact=False).row(0)
    assert "aHVudGVyMg==" in body
    assert TOKEN in uri
