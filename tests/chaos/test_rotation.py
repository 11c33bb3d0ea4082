"""Two shells ingest while a log is rotated: no request is lost, none counts twice."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from replay.audit.store import Store
from replay.storage.directory import DirectoryStorage
from tests.support import log_lines

EVENTS_OF_A_FILE = 20


def _lines(first: int, count: int) -> bytes:
    return b"".join(log_lines.event(n % 60, auditID=f"id-{n}") + b"\n" for n in range(first, first + count))


def _ids(store: Path) -> list[str]:
    with Store.open(store) as opened:
        return sorted(record.audit_id for record in log_lines.records(opened))


def rename(directory: Path, number: int) -> None:
    """As the API server does: the old file gets the time as its name."""
    (directory / "audit.log").rename(directory / f"audit-{number:04}.log")


def shift(directory: Path, _number: int) -> None:
    """As logrotate does: each old file gets the next number."""
    for path in sorted(directory.glob("audit.log.*"), key=lambda path: -int(path.suffix[1:])):
        path.rename(path.with_suffix(f".{int(path.suffix[1:]) + 1}"))
    (directory / "audit.log").rename(directory / "audit.log.1")


def copy_and_truncate(directory: Path, number: int) -> None:
    """As logrotate does for programs that keep their file open."""
    shutil.copyfile(directory / "audit.log", directory / f".copy-{number}")
    (directory / f".copy-{number}").rename(directory / f"copy-{number:04}.log")
    (directory / "audit.log").write_bytes(b"")


ROTATIONS = [rename, shift, copy_and_truncate]


@contextmanager
def _waiting(store: Path, directory: Path) -> Iterator[threading.Thread]:
    """An ingest that waits for the lock, until the context ends."""

    def ingest() -> None:
        with Store.open(store) as opened:
            opened.ingest([directory])

    thread = threading.Thread(target=ingest)
    with DirectoryStorage(store).locked("lock", "busy"):
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
        yield thread
    thread.join()


@pytest.mark.parametrize("rotate", ROTATIONS, ids=lambda rotate: rotate.__name__)
def test_what_is_read_is_what_was_digested(rotate: Any, tmp_path: Path) -> None:
    directory, store = tmp_path / "log", tmp_path / "store"
    directory.mkdir()
    (directory / "audit.log").write_bytes(_lines(0, 5))
    with Store.open(store) as opened:
        opened.ingest([directory])
    (directory / "audit.log").write_bytes(_lines(0, 9))
    with _waiting(store, directory):
        rotate(directory, 1)
        with (directory / "audit.log").open("ab") as file:
            file.write(_lines(9, 6))
    with Store.open(store) as opened:
        opened.ingest([directory])
    assert _ids(store) == sorted(f"id-{n}" for n in range(15))


@pytest.mark.slow
def test_thirty_rotations(tmp_path: Path, command: Any) -> None:
    directory, store = tmp_path / "log", tmp_path / "store"
    directory.mkdir()
    (directory / "audit.log").write_bytes(_lines(0, 1))
    rotated = threading.Event()
    refusals: list[str] = []
    ingests: list[int] = []

    def ingest() -> None:
        while not rotated.is_set():
            done = command.run("ingest", directory, "--store", store, "--json")
            ingests.append(done.code)
            refusals.extend([done.err] if done.code else [])

    shells = [threading.Thread(target=ingest) for _ in range(2)]
    for shell in shells:
        shell.start()
    written = 1
    for number in range(30):
        with (directory / "audit.log").open("ab") as file:
            for _ in range(EVENTS_OF_A_FILE):
                file.write(_lines(written, 1))
                file.flush()
                written += 1
        rotated.wait(0.25)
        ROTATIONS[number % 3](directory, number)
    rotated.set()
    for shell in shells:
        shell.join()
    last = command.run("ingest", directory, "--store", store)
    sys.stdout.write(f"30 rotations, {written} requests, {len(ingests)} ingests of two shells\n")
    assert (last.code, refusals) == (0, [])
    assert _ids(store) == sorted(f"id-{n}" for n in range(written))
    assert command.not_converted() == []
