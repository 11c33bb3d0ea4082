"""What every storage does, and what only object storage has to."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from replay.errors import StoreError
from replay.storage import bucket as buckets
from replay.storage.directory import DirectoryStorage
from replay.storage.location import is_bucket, opened
from replay.storage.storage import Storage

PATIENCE_SECONDS = 30.0


def names(storage: Storage, prefix: str = "") -> list[str]:
    return sorted(entry.name for entry in storage.entries(prefix))


def test_files(storage: Storage) -> None:
    with pytest.raises(FileNotFoundError):
        storage.read("store.json")
    assert not storage.has("store.json")
    storage.put("store.json", b"one", durable=True)
    storage.put("store.json", b"two", durable=True)
    storage.put("results/a/b.c", b"")
    storage.touch("results/a/b.c")
    assert (storage.read("store.json"), storage.has("store.json")) == (b"two", True)
    assert [names(storage), names(storage, "results/"), names(storage, "nothing/")] == [
        ["results/a/b.c", "store.json"],
        ["results/a/b.c"],
        [],
    ]
    (entry,) = storage.entries("results/")
    assert (entry.size, abs(entry.modified - time.time()) < 60) == (0, True)
    for gone in ("results", "results", "store.json", "store.json"):
        storage.remove(gone)
    assert names(storage) == []


def test_a_folder_is_adopted_whole(storage: Storage) -> None:
    path = storage.workspace("segments")
    (path / "part=0").mkdir()
    (path / "part=0" / "rows").write_bytes(b"rows")
    (path / "files").write_bytes(b"files")
    storage.adopt(path, "segments/000001", durable=True)
    assert names(storage, "segments/") == ["segments/000001/files", "segments/000001/part=0/rows"]
    assert list(storage.folders("segments/")) == ["000001"]
    assert storage.local("segments/000001/part=0/rows").read_bytes() == b"rows"
    assert (storage.local("segments/000001") / "files").read_bytes() == b"files"


def test_what_killed_processes_left_is_swept(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    owners = {f"{socket.gethostname()}-{ended.pid}": False, f"{socket.gethostname()}-{os.getpid()}": True}
    owners[f"another-machine-{ended.pid}"] = True
    for owner in owners:
        (tmp_path / f"store.json.partial-{owner}").write_bytes(b"")
    DirectoryStorage(tmp_path).sweep()
    assert {path.name.partition(".partial-")[2] for path in tmp_path.iterdir()} == {
        owner for owner, stays in owners.items() if stays
    }


def test_a_folder_that_goes_while_it_is_listed_holds_nothing(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    for name in ("a", "segments/new-1/b", "segments/000001/c"):
        storage.put(name, b"")
    entries = storage.entries()
    first = next(entries).name
    storage.remove("segments/new-1")  # as another ingest does with its own
    assert [first, *(entry.name for entry in entries)] == ["a", "segments/000001/c"]


def test_one_writer_at_a_time(storage: Storage) -> None:
    with (
        storage.locked("lock", "busy"),
        pytest.raises(StoreError, match="busy"),
        storage.locked("lock", "busy", patience=0),
    ):
        pytest.fail("two have the lock")
    with storage.locked("lock", "busy", patience=0):
        pass


def test_a_writer_waits(storage: Storage) -> None:
    order: list[str] = []
    holds = threading.Event()

    def first() -> None:
        with storage.locked("lock", "busy"):
            holds.set()
            time.sleep(0.5)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    holds.wait()
    with storage.locked("lock", "busy"):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    ("location", "is_in_a_bucket"),
    [("s3://b/p", True), ("gs://b", True), ("az://c/p", True), ("audit.store", False), (Path("s3:/b"), False)],
)
def test_locations(location: Path | str, *, is_in_a_bucket: bool) -> None:
    assert is_bucket(location) is is_in_a_bucket


def test_what_is_fetched_is_read_once_more_by_nobody(bucket: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        writer, reader = opened(bucket, stack), opened(bucket, stack)
        writer.put("segments/1/rows", b"rows")
        assert reader.local("segments/1/rows").read_bytes() == b"rows"
        writer.remove("segments")
        assert reader.local("segments/1/rows").read_bytes() == b"rows"
    del tmp_path


def test_a_lock_that_nobody_renews_lapses(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        storage = opened(bucket, stack)
        storage.put("lock", json.dumps({"owner": "killed", "until": time.time() + 60}).encode())
        with pytest.raises(StoreError, match="busy"), storage.locked("lock", "busy", patience=0):
            pytest.fail("it counts yet")
        storage.put("lock", json.dumps({"owner": "killed", "until": time.time() - 1}).encode())
        with storage.locked("lock", "busy", patience=0):
            assert json.loads(storage.read("lock"))["owner"] != "killed"
        assert not storage.has("lock")
    del monkeypatch


def test_a_lock_is_renewed(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_RENEWALS", 1200)  # every 50 ms
    with ExitStack() as stack:
        storage = opened(bucket, stack)
        with storage.locked("lock", "busy"):
            first = json.loads(storage.read("lock"))["until"]
            deadline = time.monotonic() + PATIENCE_SECONDS
            while json.loads(storage.read("lock"))["until"] == first and time.monotonic() < deadline:
                time.sleep(0.05)
            assert json.loads(storage.read("lock"))["until"] > first


def test_a_catalog_replaces_only_what_was_read(bucket: str) -> None:
    with ExitStack() as stack:
        one, other = opened(bucket, stack), opened(bucket, stack)
        for each in (one, other):
            with pytest.raises(FileNotFoundError):
                each.read("store.json")
        one.put("store.json", b"one", durable=True)
        with pytest.raises(StoreError, match="another process wrote to the store meanwhile: run again"):
            other.put("store.json", b"other", durable=True)
        assert other.read("store.json") == b"one"
        other.put("store.json", b"other", durable=True)
        assert one.read("store.json") == b"other"


def test_a_writer_that_lost_its_lock_changes_nothing(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_RENEWALS", 0.01)  # as of a process that was stopped for a while
    monkeypatch.setattr(buckets, "LEASE_SECONDS", 0.3)
    with ExitStack() as stack:
        slow, other = opened(bucket, stack), opened(bucket, stack)
        with slow.locked("lock", "busy"):
            time.sleep(0.4)
            with other.locked("lock", "busy", patience=0):
                monkeypatch.setattr(buckets, "LEASE_SECONDS", 60)
                with pytest.raises(StoreError, match="the lock of the store was lost: run again"):
                    slow.put("store.json", b"slow", durable=True)
        assert not slow.has("store.json")


def test_the_lock_of_another_writer_is_not_given_back(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_RENEWALS", 0.001)
    monkeypatch.setattr(buckets, "LEASE_SECONDS", 0.2)
    with ExitStack() as stack:
        slow, other = opened(bucket, stack), opened(bucket, stack)
        with slow.locked("lock", "busy"):
            time.sleep(0.3)
            other.put("lock", json.dumps({"owner": "another", "until": time.time() + 60}).encode())
        assert json.loads(other.read("lock"))["owner"] == "another"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"until": null}'], ids=["empty", "a list", "no time"])
def test_a_lock_that_says_nothing_is_taken_over(bucket: str, content: bytes) -> None:
    with ExitStack() as stack:
        storage = opened(bucket, stack)
        storage.put("lock", content)
        with storage.locked("lock", "busy", patience=0):
            pass


def test_a_bucket_that_is_not_there(bucket: str) -> None:
    with ExitStack() as stack, pytest.raises(StoreError) as raised:
        opened(bucket.replace("bucket-", "nobody-"), stack).put("a", b"")
    assert (raised.value.path, "\n" in raised.value.message) == (bucket.replace("bucket-", "nobody-"), False)
