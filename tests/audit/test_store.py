"""A store that is kept: what it knows is not read again, and no failure leaves it half written."""

from __future__ import annotations

import errno
import itertools
import json
import multiprocessing
import os
import pickle
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

from replay.audit import queries
from replay.audit.catalog import Catalog, DataFile, SegmentEntry, write_catalog
from replay.audit.directory import prune_store
from replay.audit.event import RequestRecord
from replay.audit.ingest import LogReader
from replay.audit.part import StorePart
from replay.audit.segment import Segment, write_segment
from replay.audit.source import LogFile
from replay.audit.store import Store
from replay.errors import AuditLogError, StoreError
from replay.storage.directory import DirectoryStorage
from replay.storage.scratch import scratch


def event(number: int, **fields: Any) -> str:
    plain = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "verb": "create",
        "requestURI": "/",
        "user": {"username": "alice"},
        "objectRef": {"resource": "pods", "namespace": "n", "name": f"p{number % 7}", "apiVersion": "v1"},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": f"2026-01-01T00:{number:02}:00.000000Z",
        "stageTimestamp": f"2026-01-01T00:{number:02}:00.500000Z",
    }
    return json.dumps({**plain, **fields}) + "\n"


def log(path: Path, *numbers: int, **fields: Any) -> Path:
    path.write_text("".join(event(number, **fields) for number in numbers))
    return path


def ids(store: Store) -> list[str]:
    return sorted(record.audit_id for part in range(store.parts) for record in store.part(part).records())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two logs, and a store of them, two segments."""
    path = tmp_path_factory.mktemp("made")
    for name, numbers in {"first": (1, 2, 3), "second": (11, 12)}.items():
        with Store.open(path / "store") as store:
            store.ingest([log(path / name, *numbers)])
    return path


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    """The same store beside its logs, to be changed."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store"


def test_known_contents_are_not_read_again(directory: Path, tmp_path: Path) -> None:
    renamed = (tmp_path / "first").rename(tmp_path / "renamed")
    with Store.open(directory) as store:
        report = store.ingest([renamed, log(tmp_path / "third", 3, 4)])
        assert (report.files, report.known_files, report.requests) == (1, 1, 1)
        assert [(reject.line, reject.audit_id, str(reject.reason)) for reject in store.rejects()] == [
            (1, "id-3", "duplicate")
        ]
        assert (ids(store), store.requests) == (["id-1", "id-11", "id-12", "id-2", "id-3", "id-4"], 6)
        assert store.ingest([renamed]).known_files == 1


def test_a_later_stage_replaces_what_an_earlier_ingest_read(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.ingest([log(tmp_path / "a", 1, stage="ResponseStarted", responseStatus={})])
        report = store.ingest([log(tmp_path / "b", 1)])
        assert (report.requests, report.superseded, store.requests) == (1, 1, 1)
        assert [(r.stage, r.code) for part in range(store.parts) for r in store.part(part).records()] == [
            ("ResponseComplete", 201)
        ]
        report = store.ingest([log(tmp_path / "c", 1, 1, stage="RequestReceived")])
        assert (report.requests, report.superseded, store.requests) == (0, 2, 1)


def test_the_order_of_ingests_does_not_matter(tmp_path: Path) -> None:
    def all_of(order: str) -> list[RequestRecord]:
        with Store.open(tmp_path / f"store-{order}") as store:
            for name in order:
                store.ingest([logs[name]])
            parts = [store.part(number) for number in range(store.parts)]
        return [record for part in parts for record in part.records()]

    logs = {
        name: log(tmp_path / name, *numbers) for name, numbers in {"a": (1, 8, 2), "b": (15, 3), "c": (9, 22)}.items()
    }
    assert all_of("abc") == all_of("cba") == all_of("bac")


def test_an_interrupted_ingest_leaves_the_store_as_it_was(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    before = (directory / "store.json").read_bytes()
    third = log(tmp_path / "third", 21)
    for step in ("audit.store.write_store", "storage.directory.DirectoryStorage.adopt", "audit.store.write_segment"):
        with monkeypatch.context() as patch, Store.open(directory) as store:
            patch.setattr(f"replay.{step}", fail)
            with pytest.raises(KeyboardInterrupt):
                store.ingest([third])
        assert (directory / "store.json").read_bytes() == before, step
    (directory / "segments" / "new-killed").mkdir()
    with Store.open(directory) as store:
        assert len(ids(store)) == 5
        store.ingest([third])
        assert len(ids(store)) == 6
    assert len(list((directory / "segments").iterdir())) == 3


@pytest.mark.parametrize(
    ("segment", "path"), [("../outside", "files.parquet"), ("1", "../../outside"), ("1", "/etc/hostname")]
)
def test_a_catalog_names_nothing_outside_the_store(tmp_path: Path, segment: str, path: str) -> None:
    storage = DirectoryStorage(tmp_path)
    entry = SegmentEntry(segment, (), (DataFile(path, 0, "", 0),), events=0, requests=0, replaced=0, last=0)
    write_catalog(storage, Catalog(1, 1, 1, (entry,)), durable=False)
    with pytest.raises(StoreError, match="damaged"):
        Store.open(tmp_path)


def test_a_log_that_is_refused_leaves_no_store_behind(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("bad\n")
    with Store.open(tmp_path / "store") as store, pytest.raises(AuditLogError, match="no audit event"):
        store.ingest([tmp_path / "bad"])
    with Store.open(tmp_path / "store") as store:
        assert (store.requests, store.parts, store.segments) == (0, 0, ())


def test_other_versions_and_damage_are_refused_with_the_way_out(directory: Path, tmp_path: Path) -> None:
    catalog = json.loads((directory / "store.json").read_bytes())
    cases = {
        json.dumps({**catalog, "schema": 99}): "the store has schema 99, this replay reads 7: upgrade kube-replay",
        json.dumps(
            {**catalog, "schema": 6}
        ): "the store has schema 6, this replay reads 7: remove the directory and run `replay ingest",
        json.dumps({"kind": "other"}): "this is no store: name another directory",
        "{": "damaged: remove the directory and ingest the logs again",
        json.dumps({"kind": "replay store", "schema": 7}): "damaged: remove the directory and ingest the logs again",
    }
    for content, message in cases.items():
        (directory / "store.json").write_text(content)
        with pytest.raises(StoreError, match=message):
            Store.open(directory)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(StoreError, match="the directory holds other files"):
        Store.open(tmp_path / "other")
    with pytest.raises(StoreError, match="name another directory"):
        Store.open(tmp_path / "a*")
    with pytest.raises(StoreError, match="not a directory"):
        Store.open(tmp_path / "other" / "thesis.txt" / "store")


def test_a_store_without_its_catalog_is_not_begun_anew(directory: Path) -> None:
    (directory / "store.json").unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match="missing: remove the store's directory and ingest the logs again"):
            Store.open(directory)
        (directory / "open.sql").unlink(missing_ok=True)


def test_a_catalog_that_says_something_else_is_damaged(directory: Path) -> None:
    text = (directory / "store.json").read_text()
    assert '"events": 3' in text
    (directory / "store.json").write_text(text.replace('"events": 3', '"events": 2'))
    with pytest.raises(StoreError, match="damaged: remove the directory and ingest the logs again"):
        Store.open(directory)


def test_an_answer_in_the_place_of_another_is_made_anew(directory: Path) -> None:
    with Store.open(directory) as store:
        for name in ("one", "two"):
            assert store.remembered(name, name.encode) == name.encode()
        one, two = (next((directory / "remembered").glob(f"{name}.*")) for name in ("one", "two"))
        one.write_bytes(two.read_bytes())
        assert store.remembered("one", b"again".strip) == b"again"


def test_a_file_that_changes_while_it_is_read_is_read_again(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = log(tmp_path / "third", 21)

    def grow(reader: LogReader, files: Sequence[LogFile], *, is_first: bool) -> Segment:
        segment = write_segment(reader, files, is_first=is_first)
        log(third, 21, 22)
        return segment

    with Store.open(directory) as store:
        monkeypatch.setattr("replay.audit.store.write_segment", grow)
        store.ingest([third])
        assert [file.digest for file in store.segments[-1].files] == [""]
        monkeypatch.undo()
        assert (store.ingest([third]).files, len(ids(store))) == (1, 7)
        assert store.ingest([third]).known_files == 1


def test_scratch_of_a_killed_run_is_swept_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch() as used:
        (tmp_path / "replay-12345678").mkdir(mode=0o700)
        killed = tmp_path / "replay-abcdefgh"
        killed.mkdir(mode=0o700)
        (killed / "owner").touch()
        (killed / "spill").touch()
        others = [tmp_path / "replay-notes", tmp_path / "replay-longer-name", tmp_path / "replay-someones"]
        for path in others:
            path.mkdir(mode=0o755 if path.name == "replay-someones" else 0o700)
            (path / "thesis.txt").touch()
        with scratch() as second:
            assert sorted(tmp_path.iterdir()) == sorted([used, second, *others])
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_a_read_only_store_is_read_and_not_written(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_args: False)
    with Store.open(directory) as store:
        assert len(ids(store)) == 5
        with pytest.raises(StoreError, match="the store is read-only"):
            store.ingest([log(tmp_path / "third", 21)])


def test_a_store_on_a_read_only_file_system_answers(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = os.open

    def read_only(path: str, flags: int, *mode: int, **place: int) -> int:
        if flags & os.O_RDWR and not place and Path(path).is_relative_to(directory):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return really_open(path, flags, *mode, **place)

    monkeypatch.setattr("replay.storage.directory.os.open", read_only)
    for _ in range(2):
        with Store.open(directory) as store:
            assert len(ids(store)) == 5
            assert store.ingest([tmp_path / "first", tmp_path / "second"]).known_files == 2
            with pytest.raises(StoreError, match="the store is read-only"):
                store.ingest([log(tmp_path / "third", 21)])
        with pytest.raises(StoreError, match="the store is read-only"):
            prune_store(DirectoryStorage(directory), 0)
        (directory / "readers").unlink(missing_ok=True)  # copied without its locks, it still answers


def test_writers_wait_for_each_other(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    third = log(tmp_path / "third", 21)
    with DirectoryStorage(directory).locked("lock", "busy"):
        monkeypatch.setattr("replay.storage.directory.PATIENCE_SECONDS", 0.0)
        with Store.open(directory) as store, pytest.raises(StoreError, match="another process writes to the store"):
            store.ingest([third])
        with pytest.raises(StoreError, match="another process writes to the store"):
            prune_store(DirectoryStorage(directory), 0)
    monkeypatch.undo()
    errors: list[BaseException] = []

    def ingest(name: int) -> None:
        try:
            with Store.open(directory) as store:
                store.ingest([log(tmp_path / f"log-{name}", 30 + name)])
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=ingest, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Store.open(directory) as store:
        assert (errors, len(ids(store))) == ([], 8)


def test_prune_forgets_old_ingests_unless_someone_reads(directory: Path) -> None:
    between = 1767225600000000 + 5 * 60_000_000
    (directory / "segments" / "new-abandoned").mkdir()
    with Store.open(directory), pytest.raises(StoreError, match="another process reads the store"):
        prune_store(DirectoryStorage(directory), between)
    assert prune_store(DirectoryStorage(directory), between) == 1
    assert len(list((directory / "segments").iterdir())) == 1
    with Store.open(directory) as store:
        assert ids(store) == ["id-11", "id-12"]
    assert prune_store(DirectoryStorage(directory), 1 << 60) == 1
    with Store.open(directory) as store:
        assert (store.requests, ids(store)) == (0, [])


def test_a_plain_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    path = log(tmp_path / "a", 1)
    with Store.open() as store:
        store.ingest([path])
    with pytest.raises(AuditLogError), Store.open() as store:
        store.ingest([tmp_path / "none"])
    assert list((tmp_path / "temporary").iterdir()) == []


def _ids_of_part(part: StorePart) -> list[str]:
    return [record.audit_id for record in part.records()]


@pytest.mark.parametrize(
    ("fewest", "octets", "numbers"),
    [
        (1, 1 << 20, [0]),
        (4, 1 << 20, [0, 4, 8, 12]),
        (6, 1 << 20, [0, 2, 4, 6, 8, 10, 12, 14]),
        (40, 1 << 20, list(range(16))),
        (1, 1, [0, 3, 4, 5, 6, 9, 10, 11]),
    ],
    ids=["all", "four", "an uneven number", "more than there are", "large parts and empty ones"],
)
def test_small_neighbours_are_one_part(
    fewest: int, octets: int, numbers: list[int], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.audit.store.JOINED_BYTES", octets)
    with Store.open(directory) as store:
        joined = store.joined_parts(fewest)
        records = [record.audit_id for part in joined for record in part.records()]
        assert ([part.number for part in joined], sorted(records)) == (numbers, ids(store))


def test_a_part_is_read_by_another_process(directory: Path) -> None:
    with Store.open(directory) as store:
        parts = [store.part(number) for number in range(store.parts)]
        assert pickle.loads(pickle.dumps(parts)) == parts
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            assert sorted(itertools.chain.from_iterable(pool.map(_ids_of_part, parts))) == ids(store)


@pytest.fixture
def connection(directory: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """What `duckdb -init open.sql` gives in a store."""
    with duckdb.connect() as opened:
        opened.execute(f"set variable store = '{directory}'")
        opened.execute((directory / "open.sql").read_text())
        yield opened


def test_a_store_opens_in_duckdb_itself(connection: duckdb.DuckDBPyConnection) -> None:
    found = connection.execute("select \"name\", line from request where verb = 'create' order by seq").fetchall()
    assert found == [("p1", 1), ("p2", 2), ("p3", 3), ("p4", 1), ("p5", 2)]
    assert connection.execute("select lines from file order by file_id").fetchall() == [(3,), (2,)]
    assert connection.execute("select * from reject").fetchall() == []


def test_a_query_that_fails_is_the_operators_error(directory: Path) -> None:
    with Store.open(directory) as store:
        with pytest.raises(StoreError, match="no query `nope`: there are "):
            store.query("nope")
        with pytest.raises(StoreError, match="Catalog Error"):
            store.sql("select * from nope")


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    path = log(tmp_path / "a", 1)
    with Store.open() as store:
        store.ingest([path], lambda *step: told.append(step))
    size = path.stat().st_size
    assert told[-1] == ("Reading the audit log", size, size)


def test_queries_are_found_and_have_headers() -> None:
    assert "writes" in queries.names()
    for path in queries.folder().glob("*.sql"):
        header = queries.header(path.stem)
        assert all(f"{word}:" in header for word in ("What", "Parameters", "Example")), path.name
