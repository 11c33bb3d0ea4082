"""lookup, explain, timeline and sql as an operator runs them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import ReplayError

DENIAL = "pods \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: <script>no\x1b[2J"


def event(number: int, audit_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": audit_id,
        "stage": "ResponseComplete",
        "verb": "create",
        "requestURI": "/",
        "user": {"username": "alice"},
        "objectRef": {"resource": "pods", "name": "web", "namespace": "prod", "apiVersion": "v1"},
        "responseStatus": {"code": 422, "reason": "Invalid", "message": DENIAL},
        "requestObject": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}, "spec": {"containers": []}},
        "annotations": {"authorization.k8s.io/decision": "allow"},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{number:02}Z",
        "stageTimestamp": f"2026-01-01T00:00:{number:02}Z",
    } | changes


@pytest.fixture
def log(tmp_path: Path) -> str:
    """One denial, and another event with its auditID."""
    path = tmp_path / "audit.jsonl"
    other = event(2, "id-1", verb="update", responseStatus={"code": 200})
    path.write_text("\n".join(map(json.dumps, [event(1, "id-1"), other, event(3, "id-2")])))
    return str(path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, env={"NO_COLOR": "1", "COLUMNS": "120"}, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_lookup_prints_and_says_what_it_cannot_know(log: str) -> None:
    text = run("lookup", log, "--action", "deny", "--tz", "Europe/Berlin")
    assert "2 decisions on 2 requests (action deny)." in text
    assert "2026-01-01 01:00:03 CET  deny  id-2" in text
    assert "with --current the others are replayed" in text
    assert "\x1b" not in text


def test_lookup_json(log: str) -> None:
    value = json.loads(run("lookup", log, "--audit-id", "id-2", "--json"))
    (decision,) = value["decisions"]
    assert (decision["policy"], decision["user"], decision["basis"]) == ("p", "alice", "observed")
    assert value["question"] == {"auditID": "id-2"}


def test_explain_names_the_other_event_with_the_id(log: str) -> None:
    text = run("explain", "id-1", log)
    assert re.search(r"Same auditID\s+\S+audit.jsonl:\d: conflicting", text)
    assert "In the log: denied by p" in text


def test_explain_as_a_page(log: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run("explain", "id-2", log, "--html", str(page))
    assert "<script>no" not in page.read_text()
    assert "&lt;script&gt;no" in page.read_text()


def test_timeline(log: str) -> None:
    value = json.loads(run("timeline", "Pod", "prod/web", log, "--json"))
    assert [each["auditID"] for each in value["events"]] == ["id-1", "id-2"]


@pytest.mark.parametrize("form", ["csv", "json", "terminal"])
def test_sql(form: str, log: str) -> None:
    text = run("sql", "select verb, count(*) as n from request group by all", log, "--format", form)
    assert (
        text
        == {
            "csv": "verb,n\ncreate,2\n",
            "json": '[\n{"verb":"create","n":2}\n]\n',
            "terminal": "verb    n\ncreate  2\n1 row\n",
        }[form]
    )


def test_sql_takes_a_query_that_is_longer_than_a_path(log: str) -> None:
    query = f"select count(*) as n from request where verb = 'create'{' and true' * 40}"
    assert run("sql", query, log, "--format", "csv") == "n\n2\n"


def test_sql_writes_parquet(log: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    run("sql", "select 1 as x", log, "--format", "parquet", "--out", str(out))
    assert out.read_bytes()[:4] == b"PAR1"


def test_sql_lists_its_queries() -> None:
    assert "lookup\n    What: " in run("sql", "--list")


def test_a_store_is_asked_again_without_the_log(log: str, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    first = run("lookup", log, "--store", store, "--json")
    assert json.loads(run("lookup", "--store", store, "--json"))["decisions"] == json.loads(first)["decisions"]


ERRORS = [
    ("no log", ["lookup"], "no log: give log files, or --store with the directory of a store"),
    (
        "no store",
        ["lookup", "--store", "/nowhere"],
        "/nowhere: there is no store: give log files as well, and it is made",
    ),
    ("time zone", ["lookup", "--tz", "Europe/Berlim"], "no time zone `Europe/Berlim`; did you mean `Europe/Berlin`"),
    ("parameter", ["sql", "select 1", "--param", "a"], "`--param a` has no value: write --param a=…"),
]


@pytest.mark.parametrize(("arguments", "wanted"), [case[1:] for case in ERRORS], ids=[case[0] for case in ERRORS])
def test_unusable_input(arguments: list[str], wanted: str) -> None:
    with pytest.raises(ReplayError) as error:
        run(*arguments)
    assert str(error.value).startswith(wanted)
    assert not Path("/nowhere").exists()
