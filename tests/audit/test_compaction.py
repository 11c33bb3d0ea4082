"""Small ingests are put together, and the store says what it said before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from replay.audit import directory as upkeep
from replay.audit.directory import TOGETHER, compact_store, prune_store, segment_octets
from replay.audit.store import Store
from replay.errors import StoreError
from replay.storage.directory import DirectoryStorage
from tests.support import log_lines


def ingest(store: Path, number: int, *lines: bytes) -> None:
    """One ingest of its own file."""
    path = store.with_name(f"log-{number}")
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    with Store.open(store) as opened:
        opened.ingest([path])


def event(number: int, day: int = 1, **fields: Any) -> bytes:
    times = dict.fromkeys(("requestReceivedTimestamp", "stageTimestamp"), f"2026-01-{day:02}T00:00:{number:02}Z")
    return log_lines.event(number, auditID=f"id-{day}-{number}", **times, **fields)


def said(store: Path) -> dict[str, Any]:
    """All that a store tells, but for what it is made of."""
    with Store.open(store) as opened:
        return {
            "requests": opened.requests,
            "rows": sorted(opened.sql("select * from request").rows(), key=lambda row: json.dumps(row, default=str)),
            "records": [list(opened.part(part).records()) for part in range(opened.parts)],
            "rejects": sorted(opened.rejects()),
            "files": sorted(opened.sql("select * from file").rows()),
            "lookups": sorted(opened.lookups(["pods", "namespaces"])),
            "positions": opened.positions,
        }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many ingests of one day as are put together: with an early stage, a duplicate and a line that is no event."""
    path = tmp_path_factory.mktemp("made") / "store"
    ingest(path, 0, event(0, stage="RequestReceived"), event(1))
    for number in range(1, TOGETHER):
        body = {"kind": "Pod", "metadata": {"name": f"p{number}", "resourceVersion": str(number)}}
        ingest(path, number, event(number - 1), event(number, responseObject=body), b"nonsense")
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """The same store beside its logs, to be changed."""
    shutil.copytree(made.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store"


@pytest.mark.slow
def test_what_a_store_says_stays(store: Path) -> None:
    wanted = said(store)
    assert compact_store(DirectoryStorage(store)) == TOGETHER - 1
    assert said(store) == wanted
    with Store.open(store) as opened:
        (segment,) = opened.segments
        assert (segment.name, len(segment.files)) == ("000001-000001_000008-000008", TOGETHER)
    assert [path.name for path in (store / "segments").iterdir()] == [segment.name]


def test_later_ingests_know_what_was_put_together(store: Path) -> None:
    compact_store(DirectoryStorage(store))
    before = said(store)["requests"]
    ingest(store, 20, event(3), event(30))
    assert said(store)["requests"] == before + 1
    with Store.open(store) as opened:
        assert opened.ingest([store.with_name("log-3")]).known_files == 1


def test_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was put together is put together again with what is as large, of each day by itself: here by twos."""
    monkeypatch.setattr(upkeep, "TOGETHER", 2)
    path = tmp_path / "store"
    counts = []
    for number in range(1, 6):
        ingest(path, number, event(number))
        ingest(path, 100 + number, event(number, day=2))
        while compact_store(DirectoryStorage(path)):
            pass
        with Store.open(path) as opened:
            counts.append(len(opened.segments))
            assert opened.requests == 2 * number
    assert counts == [2 * number.bit_count() for number in range(1, 6)]
    assert prune_store(DirectoryStorage(path), 1767312000000000) == 2


def test_what_is_large_is_left_alone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for one ingest less, nothing is put together."""
    with Store.open(store) as opened:
        sizes = [segment_octets(segment) for segment in opened.segments]
    monkeypatch.setattr(upkeep, "LARGEST", sum(sizes) - 1)
    assert compact_store(DirectoryStorage(store)) == 0
    monkeypatch.setattr(upkeep, "LARGEST", sum(sizes))
    assert compact_store(DirectoryStorage(store)) == TOGETHER - 1


def test_a_failure_leaves_the_store_as_it_was(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    wanted = said(store)
    with monkeypatch.context() as patch:
        patch.setattr("replay.audit.directory.write_store", fail)
        with pytest.raises(KeyboardInterrupt):
            compact_store(DirectoryStorage(store))
    assert said(store) == wanted
    assert len(list((store / "segments").iterdir())) == TOGETHER


def test_a_store_that_is_read_or_damaged_is_left_alone(store: Path) -> None:
    with Store.open(store), pytest.raises(StoreError, match="another process reads the store"):
        compact_store(DirectoryStorage(store))
    damaged = next((store / "segments").rglob("part=*/*.parquet"))
    damaged.write_bytes(b"")
    with pytest.raises(StoreError, match="damaged"):
        compact_store(DirectoryStorage(store))
