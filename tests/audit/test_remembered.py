"""Answers kept beside a store: taken over for the same log, question and code, never for another, damaged or not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from replay.audit import directory as store_directory
from replay.audit import queries
from replay.audit.directory import code_files, kept_beside, prune_store
from replay.audit.store import Store
from replay.storage.directory import DirectoryStorage


def log(path: Path, *numbers: int) -> Path:
    events = (
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": f"id-{number}",
            "stage": "ResponseComplete",
            "verb": "get",
            "stageTimestamp": f"2026-01-01T00:{number:02}:00.500000Z",
        }
        for number in numbers
    )
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store of one log."""
    with Store.open(tmp_path / "store") as store:
        store.ingest([log(tmp_path / "first", 1, 2)])
    return tmp_path / "store"


def asked(directory: Path, answer: bytes, name: str = "facts", of: bytes = b"") -> bytes:
    """What a new process is told, if it would answer otherwise."""
    with Store.open(directory) as store:
        return store.remembered(name, lambda: answer, of)


def files(directory: Path) -> list[Path]:
    return sorted((directory / "remembered").glob("*"))


def test_an_answer_is_taken_over(directory: Path) -> None:
    assert [asked(directory, answer) for answer in (b"one", b"two")] == [b"one", b"one"]
    assert asked(directory, b"two", name="other") == b"two"
    assert asked(directory, b"three", of=b"another question") == b"three"


def test_another_log_is_asked_anew(directory: Path, tmp_path: Path) -> None:
    asked(directory, b"one")
    with Store.open(directory) as store:
        store.ingest([log(tmp_path / "second", 3)])
        assert store.remembered("facts", lambda: b"two") == b"two"
    prune_store(DirectoryStorage(directory), 1 << 60)
    assert files(directory) == []


def test_other_code_is_asked_anew(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(directory, b"one")
    monkeypatch.setattr(store_directory, "code_digest", lambda: "another version")
    assert asked(directory, b"two") == b"two"


def test_code_is_all_code_and_all_queries() -> None:
    code, package = code_files(), Path(store_directory.__file__).parents[1]
    assert {f"replay/{path.relative_to(package)}" for path in package.rglob("*") if path.suffix in (".py", ".json")} | {
        f"queries/{path.name}" for path in queries.folder().glob("*.sql")
    } == set(code)
    assert code["queries/ingest_request.sql"].st_size == (queries.folder() / "ingest_request.sql").stat().st_size


def _make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: os.truncate(path, 34),
    "empty": lambda path: os.truncate(path, 0),
    "changed": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    "no file": _make_directory,
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_answer_counts_as_absent(directory: Path, damage: Callable[[Path], object]) -> None:
    asked(directory, b"one")
    damage(files(directory)[0])
    assert asked(directory, b"two") == b"two"


def test_only_the_last_answers_are_kept(directory: Path) -> None:
    for number in range(store_directory.MOST_REMEMBERED + 2):
        asked(directory, b"x", of=b"%d" % number)
        os.utime(max(files(directory), key=lambda path: path.stat().st_mtime_ns), ns=(number, number))
    assert len(files(directory)) == store_directory.MOST_REMEMBERED
    assert asked(directory, b"y", of=b"0") == b"y"


def test_a_store_that_cannot_be_written_is_asked_every_time(directory: Path) -> None:
    (directory / "remembered").write_text("in the way")
    assert [asked(directory, answer) for answer in (b"one", b"two")] == [b"one", b"two"]


def made_of(location: Path | None, content: bytes) -> tuple[bytes, int]:
    """What is made of a content beside a store, and how often it had to be made."""
    made = list[bytes]()

    def make(content: bytes) -> bytes:
        made.append(content)
        return content.upper()

    with kept_beside(location, "snapshot", make) as result:
        return result(content), len(made)


def test_what_is_made_of_a_content_is_kept(directory: Path) -> None:
    assert [made_of(directory, each) for each in (b"a", b"a", b"b")] == [(b"A", 1), (b"A", 0), (b"B", 1)]
    DAMAGE["changed"](files(directory)[0])
    DAMAGE["changed"](files(directory)[1])
    assert [made_of(directory, each) for each in (b"a", b"b")] == [(b"A", 1), (b"B", 1)]


def test_what_is_made_without_a_store_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for location in (None, tmp_path / "file", tmp_path / "a[b"):
        assert [made_of(location, b"a") for _ in range(2)] == [(b"A", 1)] * 2


def test_a_store_for_one_run_keeps_nothing(tmp_path: Path) -> None:
    with Store.open() as store:
        store.ingest([log(tmp_path / "first", 1)])
        answers = iter((b"1", b"2"))
        assert [store.remembered("facts", lambda: next(answers)) for _ in range(2)] == [b"1", b"2"]
        assert not store.storage.has("remembered")


@pytest.mark.parametrize(("most", "queries"), [(1 << 20, 1), (0, 3)])
def test_a_frame_is_taken_over_unless_it_is_large(
    most: int, queries: int, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.audit.store.MOST_FRAME_BYTES", most)
    query, asked_for = Store.query, list[str]()

    def noted(store: Store, name: str) -> pl.DataFrame:
        asked_for.append(name)
        return query(store, name)

    monkeypatch.setattr(Store, "query", noted)
    frames = []
    for _ in range(3):
        with Store.open(directory) as store:
            frames.append(store.frame("log_facts"))
    assert not frames[0].is_empty()
    assert all(each.equals(frames[0]) for each in frames)
    assert len(asked_for) == queries
