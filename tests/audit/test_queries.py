"""Every query has a header, is described where it must be, and runs on a store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from replay.audit import queries
from replay.audit.store import Store

SAMPLE = Path("sample_audit/shop")


def labelled(number: int, verb: str, labels: dict[str, str]) -> str:
    body = {"kind": "Namespace", "metadata": {"name": "n", "labels": labels, "resourceVersion": str(number)}}
    return json.dumps(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "RequestResponse",
            "auditID": f"id-{number}",
            "stage": "ResponseComplete",
            "verb": verb,
            "requestURI": "/",
            "user": {"username": "alice"},
            "userAgent": "kubectl/v1.37 (linux)",
            "objectRef": {"resource": "namespaces", "name": "n", "namespace": "n", "apiVersion": "v1"},
            "responseStatus": {"code": 200},
            "responseObject": body,
            "requestReceivedTimestamp": f"2026-01-01T00:00:{number:02}Z",
            "stageTimestamp": f"2026-01-01T00:00:{number:02}Z",
        }
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries")
    events = [
        ("create", {"a": "1"}),
        ("update", {"a": "1"}),
        ("patch", {"a": "2"}),
        ("get", {}),
        ("delete", {"a": "2"}),
    ]
    (path / "log").write_text("\n".join(labelled(n, *each) for n, each in enumerate(events)))
    with Store.open(path / "store") as store:
        store.ingest([path / "log"])
    return path / "store"


@pytest.fixture(scope="module")
def connection(directory: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """What `duckdb -init open.sql` gives in a store."""
    with duckdb.connect() as opened:
        opened.execute(f"set variable store = '{directory}'")
        opened.execute((directory / "open.sql").read_text())
        yield opened


@pytest.fixture(scope="module")
def sample() -> Iterator[Store]:
    with Store.open() as store:
        store.ingest([SAMPLE])
        yield store


def described() -> dict[str, list[tuple[str, str]]]:
    """The columns of each view, as queries/README.md describes them."""
    page = (queries.folder() / "README.md").read_text(encoding="utf-8")
    tables = {}
    for title, section in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE):
        rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][2:]
        tables[title] = [(name, row[1].strip()) for row in rows for name in row[0].strip().split(", ")]
    return tables


@pytest.mark.parametrize("view", ["request", "reject", "file", "decision", "decided_request"])
def test_the_page_describes_the_store(view: str, connection: duckdb.DuckDBPyConnection) -> None:
    types = {row[0]: row[1] for row in connection.execute(f"describe select * from {view}").fetchall()}
    expected = [(name, kind) for name, kind in described()[view] if kind]
    assert [(name, types.get(name)) for name, _ in expected] == expected
    assert {name for name, _ in described()[view]} == set(types)


@pytest.mark.parametrize("path", sorted(queries.folder().glob("*.sql")), ids=lambda path: path.stem)
def test_every_query_says_what_it_is_for(path: Path) -> None:
    header = queries.header(path.stem)
    assert re.search(r"^What: ", header, re.MULTILINE)
    assert re.search(r"^Parameters: ", header, re.MULTILINE)
    assert re.search(r"^Example: ", header, re.MULTILINE)


# Values for the placeholders that the pipeline binds or replaces; all others are numbers.
SAMPLES = {
    "predicate": "resource = 'pods'",
    "only_failed": "false",
    "resources": "['namespaces']",
    "wanted": "[7]",
    "updates": "[7]",
    "requests": "[7]",
    "expression": "resource",
    "start": "0",
    "end": "1",
}


@pytest.mark.parametrize("name", queries.names())
def test_every_query_runs(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    text = re.sub(r"^--.*$", "", queries.text(name), flags=re.MULTILINE)
    sql = re.sub(r"[<=>] \?", "= 1", re.sub(r"\$(\w+)", lambda match: SAMPLES.get(match[1], "1"), text))
    assert connection.execute(sql).fetchall() is not None


@pytest.mark.parametrize("name", queries.needs())
def test_a_query_has_no_row_without_what_it_needs(name: str, sample: Store) -> None:
    """All else in the sample gives no row, whatever the parameters; with the rest, the store asks the query."""
    met = f"coalesce({queries.needs()[name]}, false)"
    given = {"group": None, "refused": True, "written": False, "let_in": [1], "wanted": [7], "error": 0}
    parameters = {each: given[each] for each in given if f"${each}" in queries.text(name)}
    # `counted_row` has the columns that conditions name, too.
    text = re.sub(r"\bfrom (request|counted_row)\b", rf"from (from \1 where not {met})", queries.text(name))
    assert text != queries.text(name)
    assert sample.rows(text, **parameters) == []
    assert sample.is_empty(name) == (not sample.rows(f"select 1 from request where {met} limit 1"))


def test_requests_by_user(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("set variable user = 'a*'")
    (row,) = connection.execute(queries.text("requests_by_user")).fetchall()
    assert row[:6] == ("alice", 5, 4, 0, 1, ["kubectl/v1.37"])
    connection.execute("set variable user = 'bob'")
    assert connection.execute(queries.text("requests_by_user")).fetchall() == []


def test_namespace_history(connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute(queries.text("namespace_history")).fetchall()
    assert [(row[4], row[9]) for row in rows] == [
        ("create", '{"a":"1"}'),
        ("patch", '{"a":"2"}'),
        ("delete", '{"a":"2"}'),
    ]


def test_no_path_says_anything_about_the_data() -> None:
    """DuckDB takes a directory called `COLUMN=VALUE` for a column, unless it is told not to."""
    for path in queries.folder().glob("*.sql"):
        text = path.read_text()
        for function in ("read_parquet(", "read_json("):
            for call in text.split(function)[1:]:
                assert "hive_partitioning = false" in call[:300], path.name
