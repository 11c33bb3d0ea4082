"""A store in a bucket answers as one in a directory."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from replay.audit.directory import TOGETHER, compact_store
from replay.audit.store import Store
from replay.cli.app import app
from replay.errors import StoreError
from replay.pipeline.live import Filling, SegmentLimits
from replay.pipeline.scenario import Scenario
from replay.pipeline.store import Retention
from replay.storage.bucket import BucketStorage
from replay.storage.location import opened
from tests.support import log_lines

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
LOG = SAMPLE / "audit.jsonl.zst"
SETS = ("--current", str(SAMPLE / "current"), "--candidate", str(SAMPLE / "candidate"))


def told(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def run(store: str | Path, *arguments: str) -> str:
    done = told("run", "--store", str(store), *SETS, "--json", *arguments)
    assert done.exit_code in (0, 1), done.output
    return done.stdout


@pytest.mark.slow
def test_a_run_over_a_bucket_is_that_over_a_directory(bucket: str, tmp_path: Path) -> None:
    for place in (bucket, str(tmp_path / "store")):
        done = told("ingest", str(LOG), "--store", place)
        assert done.exit_code == 0, done.output
    local = run(tmp_path / "store")
    assert [run(bucket), run(bucket)] == [local, local], "from nothing, and from what the first run kept"
    with Store.open(bucket) as store:
        kept = {entry.name.partition("/")[0] for entry in store.storage.entries()}
    assert kept == {"segments", "store.json", "open.sql", "remembered", "results"}
    assert told("store", "prune", bucket, "--before", "2100-01-01T00:00:00Z").exit_code == 0
    with Store.open(bucket) as store:
        assert (store.requests, [entry.name for entry in store.storage.entries("segments/")]) == (0, [])


def test_an_ingest_that_ends_early_leaves_the_store_as_it_was(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, Store.open(bucket) as store:
        patch.setattr(BucketStorage, "adopt", fail)
        with pytest.raises(KeyboardInterrupt):
            store.ingest([LOG])
    with Store.open(bucket) as store:
        assert (store.requests, sorted(entry.name for entry in store.storage.entries())) == (
            0,
            ["open.sql", "store.json"],
        )
        assert store.ingest([LOG]).files == 1


def test_where_there_is_no_store(bucket: str) -> None:
    done = told("store", "info", bucket)
    assert (done.exit_code, type(done.exception)) == (1, StoreError)
    assert str(done.exception).startswith(f"{bucket}: there is no store")


@pytest.mark.slow
def test_a_log_that_grows_is_followed_into_a_bucket(bucket: str, tmp_path: Path) -> None:
    """Small ingests are put together there, too, and how far the log is read is kept beside them."""
    path, told = tmp_path / "audit.log", list[str]()
    for number in range(TOGETHER):
        (tmp_path / f"log-{number}").write_bytes(log_lines.event(number) + b"\n")
        with Store.open(bucket) as store:
            store.ingest([tmp_path / f"log-{number}"])
    for number in range(2):
        with path.open("ab") as file:
            file.write(log_lines.event(20 + number) + b"\n")
        scenario = Scenario((str(path),), store=bucket)
        report, requests = Filling(scenario, SegmentLimits(1, 0), Retention(), None, told.append, lambda: True).follow()
        assert (report.events, requests) == (1, TOGETHER + 1 + number), told
    with ExitStack() as stack:
        assert compact_store(opened(bucket, stack)) == TOGETHER + 1
    with Store.open(bucket) as store:
        assert (store.requests, [segment.events for segment in store.segments]) == (TOGETHER + 2, [TOGETHER + 2])
        assert {record.audit_id for record in log_lines.records(store)} >= {"id-0", "id-20", "id-21"}
