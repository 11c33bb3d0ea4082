"""The Python API: what is public, what it gives, and that asking for nothing costs nothing."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import replay
from replay.api.tables import FINDINGS, OUTCOMES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
PUBLIC = {
    "run": "(logs, *, current, candidate, add, apply, cluster, store, policies, namespaces, users, since, until, accepted, owner_label, redact, workers, kubernetes_version, current_version, candidate_version, down, current_down, progress)",
    "Store": "(path)",
    "Store.ingest": "(self, logs, *, log_format)",
    "Store.sql": "(self, query, *, redact, parameters)",
    "Result.findings": "(self)",
    "Result.outcomes": "(self)",
    "Result.requests": "(self)",
    "Result.json": "(self)",
    "Result.write": "(self, directory)",
    "cel.compile": "(expression, *, kind, kubernetes_version)",
    "cel.Expression.evaluate": "(self, documents)",
}
"""Names and parameters that users rely on: a change of this table is a change of the API."""


@pytest.fixture(scope="module")
def result(short_sample: Path) -> replay.Result:
    return replay.run(short_sample)


def test_what_is_public() -> None:
    assert replay.__all__ == ["ReplayError", "Result", "Store", "cel", "run"]
    assert dir(replay) == replay.__all__
    assert replay.cel.__all__ == ["CompileError", "EvaluationError", "Expression", "compile"]
    with pytest.raises(AttributeError, match="module 'replay' has no attribute 'runs'"):
        _ = replay.runs
    for name in (*replay.__all__, "cel.compile", "cel.CompileError", "cel.EvaluationError"):
        assert f"replay.{name}" in PAGE
    assert (ROOT / "replay" / "py.typed").exists()


@pytest.mark.parametrize("name", PUBLIC)
def test_signatures_stay(name: str) -> None:
    found: Any = replay
    for part in name.split("."):
        found = getattr(found, part)
    bare = [
        each.replace(annotation=each.empty, default=each.empty) for each in inspect.signature(found).parameters.values()
    ]
    assert str(inspect.Signature(bare)).replace("**", "") == PUBLIC[name]
    assert found.__doc__


def test_nothing_is_loaded_until_it_is_asked_for() -> None:
    program = "import sys, replay; print(sorted(each for each in sys.modules if each.split('.')[0] in ('replay', 'duckdb', 'polars', 'pyarrow')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "['replay']\n"


@pytest.mark.slow
def test_tables_and_summary_agree(result: replay.Result) -> None:
    findings, outcomes, requests = result.findings(), result.outcomes(), result.requests()
    assert (findings.schema, outcomes.schema) == (FINDINGS, OUTCOMES)
    assert Counter(outcomes["outcome"].to_pylist()) == result.summary.outcomes
    assert outcomes.num_rows == result.summary.requests
    counts: Counter[str] = Counter()
    roots: Counter[str] = Counter()
    for row in findings.to_pylist():
        counts[row["outcome"]] += row["requests"]
        roots[row["outcome"]] += 0 if row["follows"] else row["requests"]
    assert counts == {name: n for name, n in result.summary.outcomes.items() if name != "unchanged"}
    assert +roots == result.summary.roots
    assert requests.num_rows >= outcomes.num_rows
    assert set(outcomes["audit_id"].to_pylist()) <= set(requests["audit_id"].to_pylist())
    assert result.json()["outcomes"] == {**result.json()["outcomes"], **result.summary.outcomes}


@pytest.mark.parametrize("function", [replay.run, replay.cel.compile])
def test_nobody_asks_for_a_version_who_names_none(function: Any) -> None:
    """The sets say of which server they are, as for the command."""
    assert inspect.signature(function).parameters["kubernetes_version"].default is None


def test_polars_and_duckdb_take_tables_as_they_are(result: replay.Result) -> None:
    outcomes = result.outcomes()
    frame = pl.DataFrame(outcomes)
    denied = frame.filter(pl.col("outcome") == "newly_denied").height
    assert denied == result.summary.outcomes["newly_denied"]
    rows = duckdb.sql("select count(*) from outcomes where outcome = 'newly_denied'")
    assert rows is not None
    assert rows.fetchall() == [(denied,)]


def test_a_notebook_shows_the_report_in_a_frame(result: replay.Result) -> None:
    shown = result._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert "<script" not in shown
    assert repr(result).startswith("<replay.Result: ")


@pytest.mark.slow
def test_a_store_and_the_options_of_run(short_sample: Path, tmp_path: Path, result: replay.Result) -> None:
    store = replay.Store(tmp_path / "store")
    (log,) = short_sample.glob("audit.*")
    held = store.ingest(log)
    assert (held, store.requests) == (result.requests().num_rows, held)
    assert store.sql("select count(*) as n from request").to_pylist() == [{"n": held}]
    (cluster,) = short_sample.glob("cluster.*")
    sets: dict[str, Any] = {
        "current": short_sample / "current",
        "candidate": short_sample / "candidate",
        "cluster": cluster,
    }
    assert replay.run(store, **sets).json()["outcomes"] == result.json()["outcomes"]
    some = replay.run(store, **sets, namespaces="team-a", policies=["image-registries"])
    assert set(some.findings()["namespace"].to_pylist()) == {"team-a"}
    some.write(tmp_path / "report")
    assert (tmp_path / "report" / "report.html").exists()
    with pytest.raises(replay.ReplayError, match="no candidate set"):
        replay.run(log)


EXPRESSIONS: list[tuple[str, dict[str, Any], Any]] = [
    ("{'a': [dyn(1u), dyn(2.5), dyn(b'x')], 'b': []}", {}, {"a": [1, 2.5, b"x"], "b": []}),
    ("object.a + 1", {"object": {"a": 1}}, 2),
    ("object.b", {"object": {"b": None}}, None),
    ("params.b ? 'yes' : 'no'", {"params": {"b": True}}, "yes"),
    ("duration('90s')", {}, 'duration("90s")'),
    ("optional.none()", {}, None),
    ("optional.of(3)", {}, 3),
]


@pytest.mark.parametrize(("text", "documents", "value"), EXPRESSIONS, ids=[row[0] for row in EXPRESSIONS])
def test_expressions(text: str, documents: dict[str, Any], value: Any) -> None:
    assert replay.cel.compile(text).evaluate(**documents) == value


def test_expressions_that_fail() -> None:
    with pytest.raises(replay.cel.CompileError, match=r"undeclared reference to 'objct'"):
        replay.cel.compile("objct.a")
    with pytest.raises(replay.cel.EvaluationError, match="no such key: a"):
        replay.cel.compile("object.a").evaluate(object={})
    with pytest.raises(replay.ReplayError, match="no kind `nothing`: one of "):
        replay.cel.compile("1", kind="nothing")
    assert replay.cel.compile("object.a.b == 'c'", kind="validation").reads == ("object.a.b",)
    assert replay.cel.compile("[1u]").type == "list(uint)"


@pytest.mark.slow
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell by cell, as a kernel does it; each ends in an expression that shows something, or in nothing."""
    monkeypatch.chdir(NOTEBOOK.parent)
    book = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (book["nbformat"], [cell["outputs"] for cell in book["cells"] if cell["cell_type"] == "code"].count([])) == (
        4,
        7,
    )
    names: dict[str, Any] = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}:{cell['id']}", "exec"), names)
    assert names["by_policy"].height > 5
    assert names["alone"].summary.roots["newly_denied"] > 0


@pytest.mark.parametrize(
    ("folder", "asked", "member"),
    [
        ("upgrade", {"current_version": "1.36", "candidate_version": "1.37"}, "versions"),
        ("outage", {"down": "policy"}, "outage"),
    ],
)
def test_a_run_rehearses(folder: str, asked: dict[str, Any], member: str, short_sample: Path) -> None:
    rehearsed = replay.run(short_sample, current=ROOT / "sample_audit" / folder, **asked)
    summary = rehearsed.json()
    assert (summary["roots"].get("newly_denied", 0) > 0, member in summary) == (True, True)


def test_a_program_ends_without_a_word(short_sample: Path) -> None:
    """DuckDB prints a list of leaks where a connection outlives its module."""
    program = f"import replay\nreplay.run({str(short_sample)!r}, workers=1)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("", "")
