"""A log that grows and rotates is read to its end, each line once, whatever becomes of its files and of who reads it."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replay.audit.live import followed_log
from replay.audit.live.followed_log import FollowedFile, FollowedLog
from replay.audit.store import Store
from tests.support import log_lines

pytestmark = pytest.mark.slow

LIMIT = 1 << 20


def lines(first: int, count: int) -> bytes:
    return b"".join(log_lines.event(n % 60, auditID=f"id-{n}") + b"\n" for n in range(first, first + count))


class Reader:
    """Who follows a directory, and may be started anew."""

    def __init__(self, directory: Path, store: Path, limit: int = LIMIT) -> None:
        self.directory, self.store, self.limit = directory, store, limit
        self.told: list[str] = []
        self.log = self._log()

    def _log(self) -> FollowedLog:
        with Store.open(self.store) as store:
            return FollowedLog([str(self.directory)], store.positions, self.told.append, settled=0)

    def restart(self) -> None:
        self.log.close()
        self.log = self._log()

    def read(self) -> int:
        """Take what there is; returns how many lines of it were new to the store."""
        new = 0
        with Store.open(self.store) as store:
            while self.log.waiting():
                spool = Path(store.temporary) / "spool"
                shutil.rmtree(spool, ignore_errors=True)
                spool.mkdir()
                taken = self.log.take(spool, self.limit)
                if not taken.files:
                    break
                new += store.append(taken.files, taken.positions).lines
                taken.commit()
        return new

    def ids(self) -> list[str]:
        with Store.open(self.store) as store:
            return sorted((record.audit_id for record in log_lines.records(store)), key=lambda name: int(name[3:]))

    def where(self) -> list[tuple[str, str, int]]:
        """Each request with the name of its file, and its line."""
        with Store.open(self.store) as store:
            records = sorted(log_lines.records(store), key=lambda record: record.audit_id)
            return [(record.audit_id, Path(record.file).name, record.line) for record in records]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.mkdir()
    (path / "audit.log").write_bytes(lines(0, 3))
    return path


@pytest.fixture
def reader(directory: Path, tmp_path: Path) -> Iterator[Reader]:
    found = Reader(directory, tmp_path / "store")
    yield found
    found.log.close()


def write(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def rename(directory: Path) -> None:
    """As the API server does."""
    (directory / "audit.log").rename(directory / "audit-2026-01-01.log")


def shift(directory: Path) -> None:
    """As logrotate does by default."""
    (directory / "audit.log").rename(directory / "audit.log.1")
    (directory / "audit.log").touch()


def copy_and_truncate(directory: Path) -> None:
    shutil.copyfile(directory / "audit.log", directory / "audit.log.1")
    (directory / "audit.log").write_bytes(b"")


def compress(directory: Path) -> None:
    """As the API server does with --audit-log-compress, and logrotate without delaycompress."""
    (directory / "audit-2026-01-01.log.gz").write_bytes(gzip.compress((directory / "audit.log").read_bytes()))
    (directory / "audit.log").unlink()


def compress_zstd(directory: Path) -> None:
    (directory / "audit.log.1.zst").write_bytes(log_lines.zstd((directory / "audit.log").read_bytes()))
    (directory / "audit.log").unlink()


def remove(directory: Path) -> None:
    """A name that the argument does not have any more, as of a file that is moved away."""
    (directory / "audit.log").rename(directory.parent / "elsewhere")


ROTATIONS: list[Callable[[Path], None]] = [rename, shift, copy_and_truncate, compress, compress_zstd]


@pytest.mark.parametrize("restarted", [False, True], ids=["goes on", "restarted"])
@pytest.mark.parametrize("rotate", ROTATIONS, ids=lambda rotate: rotate.__name__)
def test_rotations(rotate: Callable[[Path], None], restarted: bool, directory: Path, reader: Reader) -> None:
    assert reader.read() == 3
    write(directory / "audit.log", lines(3, 2))
    rotate(directory)
    if restarted:
        reader.restart()
    write(directory / "audit.log", lines(5, 2))
    assert (reader.read(), reader.told) == (4, [])
    reader.restart()
    write(directory / "audit.log", lines(7, 1))
    assert (reader.read(), reader.read()) == (1, 0)
    assert reader.ids() == [f"id-{n}" for n in range(8)]


def test_two_files(directory: Path, reader: Reader) -> None:
    for n in range(3, 9, 2):
        write(directory / "audit.log", lines(n, 1))
        write(directory / "other.log", lines(n + 1, 1))
        reader.read()
        reader.restart()
    assert reader.ids() == [f"id-{n}" for n in range(9)]
    assert {(name, line) for _, name, line in reader.where()} == {
        *(("audit.log", line) for line in range(1, 7)),
        *(("other.log", line) for line in range(1, 4)),
    }


def test_a_file_that_is_gone_is_read_to_its_end(directory: Path, reader: Reader) -> None:
    reader.read()
    write(directory / "audit.log", lines(3, 2))
    remove(directory)
    write(directory / "audit.log", lines(5, 1))
    assert reader.read() == 3
    assert reader.ids() == [f"id-{n}" for n in range(6)]


@pytest.mark.parametrize(
    ("begun", "rest", "wanted"),
    [
        (lines(3, 1)[:40], lines(3, 1)[40:], (0, 1)),
        (lines(3, 2)[:-1], b"\n", (1, 1)),
        (b"", b"", (0, 0)),
    ],
    ids=["half a line", "a line without its end", "nothing"],
)
def test_a_line_is_read_when_it_is_whole(
    begun: bytes, rest: bytes, wanted: tuple[int, int], directory: Path, reader: Reader
) -> None:
    reader.read()
    write(directory / "audit.log", begun)
    first = reader.read()
    reader.restart()
    write(directory / "audit.log", rest)
    assert (first, reader.read()) == wanted
    with Store.open(reader.store) as store:
        assert log_lines.rejects(store) == []


def test_half_a_line_at_the_end_of_a_rotated_file_is_told(directory: Path, reader: Reader) -> None:
    reader.read()
    write(directory / "audit.log", b'{"kind":')
    assert reader.read() == 0
    rename(directory)
    write(directory / "audit.log", lines(3, 1))
    assert (reader.read(), reader.read()) == (2, 0)
    with Store.open(reader.store) as store:
        assert log_lines.rejects(store) == [(4, "truncated")]


def test_lines_are_told_by_their_places_in_the_file(directory: Path, reader: Reader) -> None:
    reader.read()
    write(directory / "audit.log", b"nonsense\n" + lines(3, 1))
    reader.read()
    assert reader.where() == [(f"id-{n}", "audit.log", line) for n, line in ((0, 1), (1, 2), (2, 3), (3, 5))]
    with Store.open(reader.store) as store:
        assert log_lines.rejects(store) == [(4, "malformed")]


def test_a_small_limit_takes_several_segments(directory: Path, tmp_path: Path) -> None:
    write(directory / "audit.log", lines(3, 3000))
    reader = Reader(directory, tmp_path / "store", limit=1)
    assert reader.read() == 3003
    with Store.open(reader.store) as store:
        assert len(store.segments) > 1
    assert reader.ids() == [f"id-{n}" for n in range(3003)]
    reader.log.close()


def test_many_files_are_not_all_held_open(directory: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_log, "_MOST_OPEN", 5)
    monkeypatch.setattr(followed_log, "_NEWEST", 2)
    for n in range(3, 20):
        write(directory / f"audit-{n:02}.log", lines(n, 1))
    (directory / "empty.log").touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for n in range(20, 26):
        write(directory / "audit-04.log", lines(n, 1))
        reader.read()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 5
    assert reader.ids() == [f"id-{n}" for n in range(26)]


def test_what_is_not_in_the_store_is_taken_again(reader: Reader, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        taken = reader.log.take(tmp_path / name, LIMIT)
        assert [Path(file.path).read_bytes() for file in taken.files] == [lines(0, 3)]


def test_files_that_were_ingested_are_known(directory: Path, reader: Reader) -> None:
    with Store.open(reader.store) as store:
        store.ingest([directory])
    write(directory / "audit.log", lines(3, 1))
    reader.read()
    assert reader.ids() == [f"id-{n}" for n in range(4)]


def test_a_log_that_does_not_begin_with_events(directory: Path, reader: Reader) -> None:
    (directory / "audit.log").write_bytes(b"nonsense\n")
    assert reader.read() == 1
    write(directory / "audit.log", lines(0, 2))
    reader.restart()
    assert reader.read() == 2
    assert reader.ids() == ["id-0", "id-1"]


def test_a_damaged_file_is_salvaged_once(directory: Path, reader: Reader) -> None:
    content = gzip.compress(lines(3, 2000))
    (directory / "audit-1.log.gz").write_bytes(content[: len(content) // 2])
    reader.read()
    found = reader.ids()
    assert 3 < len(found) < 2003
    reader.restart()
    reader.read()
    assert reader.ids() == found
    with Store.open(reader.store) as store:
        assert "damaged" in [reason for _, reason in log_lines.rejects(store)]


def test_what_cannot_be_read_is_told_once(directory: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: str) -> FollowedFile:
        if path.endswith("Secret.log"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return FollowedFile(path)

    monkeypatch.setattr(followed_log, "FollowedFile", opened)
    (directory / "audit.log.1.bz2").write_bytes(b"BZh91AY")
    (directory / "Secret.log").write_bytes(lines(9, 1))
    assert (reader.read(), reader.read()) == (3, 0)
    assert reader.told == [
        f"{directory}/Secret.log: cannot be read: permission denied; it is left out",
        f"{directory}/audit.log.1.bz2: bzip2 compression is not read: decompress it first; it is left out",
    ]
