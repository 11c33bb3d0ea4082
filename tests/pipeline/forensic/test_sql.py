"""SQL over a log: what runs, what is refused, and what is kept out of sight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replay.audit.store import Store
from replay.errors import ReplayError
from replay.pipeline.forensic.sql import question_names, run_query
from replay.pipeline.scenario import Scenario

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


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """A store that all ask: no question changes it."""
    directory = tmp_path_factory.mktemp("sql")
    (directory / "audit.jsonl").write_text(json.dumps(EVENT))
    with Store.open(directory / "store") as store:
        store.ingest([directory / "audit.jsonl"])
    return Scenario(store=directory / "store")


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
    ("other files", "select * from read_text('/etc/hostname')", "`read_text` cannot be read while Secrets are hidden"),
    ("other files by name", "select * from '/etc/hostname.csv'", "`/etc/hostname.csv` cannot be read while Secrets"),
    ("the rows below", "from read_parquet(getvariable('store_rows'))", "`read_parquet` cannot be read"),
    ("the view below", "select * from stored_request", "`stored_request` cannot be read"),
    ("the view below, described", "summarize counted_row", "`counted_row` cannot be read"),
    ("the view below, explained", "explain analyze from stored_request", "`stored_request` cannot be read"),
    ("under a name that is made", "with stored_request as (select 1) from stored_request", "`stored_request` cannot"),
    ("in a subquery", "select (select max(request_object) from temp.main.stored_request)", "`stored_request` cannot"),
    ("text as a query", "from query('select * from stored_request')", "`query` cannot be read"),
    ("a name as a table", "from query_table('stored_request')", "`query_table` cannot be read"),
    ("the catalogue", "select sql from duckdb_views()", "`duckdb_views` cannot be read"),
    ("the catalogue as a table", "select * from information_schema.views", "`information_schema.views` cannot be read"),
    ("more rows than fit", "select * from range(100000000000)", "the query gives more than 5000000 rows"),
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


@pytest.mark.parametrize(
    "text", ["select * from read_text('/etc/hostname')", "select * from '/etc/hostname.csv'"], ids=["call", "name"]
)
def test_other_files_are_out_of_reach_where_secrets_are_shown(text: str, source: Scenario) -> None:
    with pytest.raises(ReplayError, match="file system operations are disabled"):
        run_query(source, text, {}, silent, redact=False)


ALLOWED = [
    ("a name of its own", "with mine as (from request) select verb from mine", [("create",)]),
    ("recursion", "with recursive t as (select 1 as a union all select a + 1 from t where a < 2) from t", [(1,), (2,)]),
    ("generated", "select * from range(2)", [(0,), (1,)]),
    ("columns", "select column_name from (describe request) where column_name = 'verb'", [("verb",)]),
    ("by schema", "select verb from main.request", [("create",)]),
]


@pytest.mark.parametrize(("text", "rows"), [case[1:] for case in ALLOWED], ids=[case[0] for case in ALLOWED])
def test_what_hides_nothing_is_run(text: str, rows: list[tuple[object, ...]], source: Scenario) -> None:
    assert run_query(source, text, {}, silent).rows() == rows


@pytest.mark.parametrize(
    "text", ["explain from request", "explain analyze from request", "show tables", "summarize request"]
)
def test_descriptions_are_run(text: str, source: Scenario) -> None:
    assert run_query(source, text, {}, silent).height


def test_texts_about_a_secret_do_not_repeat_its_data(tmp_path: Path) -> None:
    denial = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: pw is hunter2"
    message = {"status": "Failure", "code": 422, "message": f'secrets "s" is forbidden: {denial}'}
    told = {"p/value": "aHVudGVyMg==", "p/decoded": "xhunter2"}
    log = tmp_path / "audit.jsonl"
    broken = json.dumps({**EVENT, "auditID": "id-2"})[:-9]
    log.write_text(json.dumps({**EVENT, "responseStatus": message, "annotations": told}) + "\n" + broken)
    source = Scenario((str(log),))
    text = "select status_message, annotations::varchar, (select list(text) from reject)::varchar from request"
    decided = "select list(message order by message)::varchar from decision"
    for query in (text, decided):
        shown, whole = (str(run_query(source, query, {}, silent, redact=each).rows()) for each in (True, False))
        assert "hunter2" in whole
        assert "hunter2" not in shown
        assert "aHVudGVyMg" not in shown
        assert "(redacted)" in shown


def test_secrets_are_hidden_unless_asked_for(source: Scenario) -> None:
    text = "select request_object::varchar, request_uri from request"
    assert run_query(source, text, {}, silent).row(0) == (None, "/?token=(redacted)")
    body, uri = run_query(source, text, {}, silent, redact=False).row(0)
    assert "aHVudGVyMg==" in body
    assert TOKEN in uri
