"""A store that was moved: its own SQL, plain DuckDB and plain Polars give what `replay sql` gives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import polars as pl
import pytest

from replay.audit.store import Store
from replay.pipeline.forensic.sql import run_query
from replay.pipeline.scenario import Scenario

QUERY = 'select verb, resource, "namespace", count(*) as requests, max(stage_time) as last from request group by all order by all'


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


@pytest.fixture(scope="module")
def moved(short_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two ingests, of which one replaces events of the other, not where it was made."""
    made, place = tmp_path_factory.mktemp("made") / "store", tmp_path_factory.mktemp("moved") / "other"
    lines = next(short_sample.glob("audit.*")).read_text().splitlines(keepends=True)
    for number, part in enumerate((lines[:700], [*lines[400:], "nonsense\n"])):
        log = made.parent / f"{number}.jsonl"
        log.write_text("".join(part))
        with Store.open(made) as store:
            store.ingest([log])
    shutil.move(made, place)
    return place


@pytest.fixture(scope="module")
def wanted(moved: Path) -> list[tuple[object, ...]]:
    rows = run_query(Scenario(store=moved), QUERY, {}, silent, redact=False).rows()
    assert len(rows) > 10
    return rows


def asked(connection: duckdb.DuckDBPyConnection, text: str) -> list[tuple[object, ...]]:
    connection.execute(text)
    return connection.execute(QUERY).fetchall()


def test_open_sql_is_read_from_anywhere(
    moved: Path, wanted: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (moved / "open.sql").read_text()
    assert str(moved.parent.parent) not in text
    with duckdb.connect() as connection:
        connection.execute(f"set variable store = '{moved}'")
        assert asked(connection, text) == wanted
        assert connection.execute("select count(*) from decision").fetchall() != [(0,)]
    monkeypatch.chdir(moved)
    with duckdb.connect() as connection:
        assert asked(connection, text) == wanted


def test_polars_reads_it_as_the_manual_says(moved: Path, wanted: list[tuple[object, ...]]) -> None:
    """The recipe of `queries/README.md`."""
    segments = [
        moved / "segments" / each["name"] for each in json.loads((moved / "store.json").read_text())["segments"]
    ]
    rows = pl.scan_parquet(
        [file for each in segments for file in sorted(each.glob("rows-*/**/*.parquet"))], hive_partitioning=False
    )
    dropped = pl.scan_parquet([each / "dropped.parquet" for each in segments])
    request = rows.filter(pl.col("reject").is_null()).join(dropped, on="row_id", how="anti")
    keys = ["verb", "resource", "namespace"]
    found = request.group_by(keys).agg(pl.len().alias("requests"), pl.col("stage_time").max().alias("last")).sort(keys)
    assert found.collect().rows() == wanted
