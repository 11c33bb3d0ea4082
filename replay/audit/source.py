"""The sources of a log: the files that the arguments of a command name, each opened once, and logs that grow.

Logs rotate while they are read. So a file stays open from the moment it is found. Its digest and its events come from
this one open file, even if its name changes. A fingerprint reveals later changes. A live log returns batches of files,
and repeats a batch that the store could not take.
"""

from __future__ import annotations

import glob
import hashlib
import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from msgspec import Struct

from replay.audit.catalog import FilePosition
from replay.audit.compressed import GzipReader, ZstdReader
from replay.errors import AuditLogError, NoLogError, reason_of
from replay.storage.directory import files_below
from replay.storage.location import WEB, is_remote, remote_files

STDIN = "-"
_BOM = b"\xef\xbb\xbf"
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
_READABLE = ("none", "gzip", "zstd")
_GROWTH = {"none": 1, "gzip": 12, "zstd": 20}
_CHUNK = 1 << 20
_OPEN_FILES = Path("/proc/self/fd")
_LISTINGS = 5
"""Maximum number of listings of the arguments.

They are repeated until two listings name the same files, because a rotation may happen in between.
"""


class FileFingerprint(NamedTuple):
    """Values that change when the content of a file changes. Times are in nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int


class LogFile(Struct, frozen=True):
    """One file of an audit log. `name` is the operator's name for it, `path` the location of its bytes.

    `compression` is `none`, `gzip` or `zstd`, from the first bytes. For the end of a file, `lines_before` counts the
    lines before it.
    """

    name: str
    path: str
    compression: str
    stamp: FileFingerprint
    lines_before: int = 0

    @property
    def size(self) -> int:
        """Size of the stored file in bytes, when it was found."""
        return self.stamp.size

    @property
    def expected_bytes(self) -> int:
        """Approximate number of bytes of JSON in the file. It is only used to divide work."""
        return self.size * _GROWTH[self.compression]

    @property
    def is_unchanged(self) -> bool:
        """Whether the bytes are still those that were found."""
        try:
            return stamp_of(os.stat(self.path)) == self.stamp  # noqa: PTH116 - as it is, not normalised
        except OSError:
            return False

    def digest(self) -> str:
        """Return the SHA-256 of the stored bytes. Raises `OSError`."""
        with Path(self.path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def log_files(arguments: Sequence[str | Path], spool: Path, held: ExitStack) -> list[LogFile]:
    """Return the files that arguments name: files, directories (recursively), globs, URLs, and `-` for standard input.

    They stay open as long as `held`. They are ordered by path, and each counts once. Sources that cannot be read twice
    (standard input, pipes, URLs) are copied to `spool`. Raises `AuditLogError` if an argument names nothing or an
    unknown format.
    """
    finder = _Finder(spool, held)
    for listing in range(_LISTINGS):
        count_before = len(finder.files)
        for argument in arguments:
            finder.find(str(argument), is_first=listing == 0)
        if len(finder.files) == count_before:
            break
    if not finder.files:
        raise AuditLogError("no audit log given: name files, directories, globs, or `-` for standard input")
    return sorted(finder.files.values(), key=lambda file: file.name)


class _Finder:
    """The files found so far, by identity and not by name."""

    def __init__(self, spool: Path, held: ExitStack) -> None:
        self.files: dict[object, LogFile] = {}
        self._spool = spool
        self._held = held
        self._read_once: set[str] = set()

    def find(self, argument: str, *, is_first: bool) -> None:
        """Add the files of one argument. Later listings ignore files that have disappeared."""
        if is_remote(argument):
            self._fetch(argument)
            return
        try:
            paths = expanded(argument)
        except AuditLogError:
            if is_first:
                raise
            return
        for path in paths:
            try:
                self._add(path)
            except FileNotFoundError as error:
                if is_first and path == argument:
                    raise unreadable(error, path) from error
            except OSError as error:
                raise unreadable(error, path) from error

    def _fetch(self, url: str) -> None:
        if url in self._read_once:
            return
        self._read_once.add(url)
        for file in remote_files(url):
            if file.url not in self.files:
                self._add_copy(file.name, file.pieces(), file.url)

    def _add(self, path: str) -> None:
        if path in self._read_once:
            return
        if path == STDIN:
            self._read_once.add(path)
            self._add_copy("<stdin>", _pieces(sys.stdin.buffer))
            return
        status = os.stat(path)  # noqa: PTH116 - /dev/fd/63 is a name, not a path to normalise
        if stat.S_ISREG(status.st_mode):
            # By identity, so that a file that a rotation renames between two listings counts once.
            if (status.st_dev, status.st_ino) not in self.files:
                self._add_file(path)
            return
        self._read_once.add(path)
        with open(path, "rb") as pipe:  # noqa: PTH123 - as above
            self._add_copy(path, _pieces(pipe))

    def _add_file(self, path: str) -> None:
        """Open a file until the end of the run. A file with a byte order mark is copied without it."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._held.callback(os.close, descriptor)
        is_marked = os.pread(descriptor, len(_BOM), 0) == _BOM
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        if is_marked:
            with os.fdopen(os.dup(descriptor), "rb") as file:
                self._add_copy(path, _pieces(file), key)
        else:
            self.files.setdefault(key, opened_file(path, descriptor, self._reachable(path, descriptor)))

    def _add_copy(self, name: str, pieces: Iterable[bytes], key: object = None) -> None:
        target = self._spool / f"input-{len(self.files)}"
        with target.open("wb") as file:
            file.writelines(_without_mark(pieces))
        descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        self._held.callback(os.close, descriptor)
        self.files[key or name] = opened_file(name, descriptor, str(target))

    def _reachable(self, path: str, descriptor: int) -> str:
        """Return a name of an open file that DuckDB takes neither for a pattern nor for an address."""
        if (place := place_of(descriptor)) is not None:
            return place
        link = self._spool / f"link-{len(self.files)}"
        link.symlink_to(os.path.abspath(path))  # noqa: PTH100 - any text; whether it leads elsewhere now, the stamp tells
        return str(link)


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    return iter(partial(source.read, _CHUNK), b"")


def _without_mark(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield bytes without a byte order mark at their start."""
    start, rest = b"", iter(pieces)
    while len(start) < len(_BOM) and (piece := next(rest, b"")):
        start += piece
    yield start.removeprefix(_BOM)
    yield from rest


def place_of(descriptor: int) -> str | None:
    """Return a path to an open file that works after a rename, if the system has such paths."""
    return str(_OPEN_FILES / str(descriptor)) if _OPEN_FILES.is_dir() else None


def unreadable(error: OSError, path: str) -> AuditLogError:
    """Return the user's error for a file that the system refused."""
    return AuditLogError(f"cannot be read: {reason_of(error)}", path=path)


def expanded(argument: str) -> list[str]:
    """Return the paths that one argument names. Raises `NoLogError` if there are none."""
    if argument == STDIN or (os.path.exists(argument) and not os.path.isdir(argument)):  # noqa: PTH110, PTH112 - any text
        return [argument]
    if os.path.isdir(argument):  # noqa: PTH112 - any text
        paths = [str(path) for path in files_below(Path(argument)) if path.is_file() and not path.name.startswith(".")]
        if not paths:
            raise NoLogError("the directory holds no file", path=argument)
        return sorted(paths)
    paths = sorted(path for path in glob.glob(argument, recursive=True) if not os.path.isdir(path))  # noqa: PTH112, PTH207
    if not paths:
        raise NoLogError("no such file", path=argument)
    return paths


def is_there(argument: str) -> bool:
    """Return whether an argument names a file now. A web server is not asked.

    Raises `AuditLogError` if a bucket does not answer, and `StoreError` without the extra for buckets.
    """
    if argument.startswith(WEB):
        return True
    try:
        found = remote_files(argument) if is_remote(argument) else expanded(argument)
        return any(True for _ in found)
    except NoLogError:
        return False


def shown(path: str) -> str:
    """Return a path as text. Bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def opened_file(name: str, descriptor: int, path: str) -> LogFile:
    """Return an open file with its compression. Raises `AuditLogError` for a compression that is not supported."""
    start = os.pread(descriptor, 8, 0)
    compression = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "none")
    if compression not in _READABLE:
        raise AuditLogError(f"{compression} compression is not read: decompress it first", path=shown(name))
    return LogFile(shown(name), path, compression, stamp_of(os.fstat(descriptor)))


def plain_file(name: str, path: Path, lines_before: int = 0) -> LogFile:
    """Return an uncompressed temporary file for a named file, or for its end after some lines."""
    return LogFile(name, str(path), "none", stamp_of(path.stat()), lines_before)


def stamp_of(status: os.stat_result) -> FileFingerprint:
    """Return the fingerprint that reveals a change of the file."""
    return FileFingerprint(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def open_log(file: LogFile) -> BinaryIO:
    """Return the decompressed bytes of a file. The caller closes it."""
    if file.compression == "gzip":
        return io.BufferedReader(GzipReader(Path(file.path).open("rb")), _CHUNK)
    if file.compression == "zstd":
        return io.BufferedReader(ZstdReader(Path(file.path).open("rb")), _CHUNK)
    return Path(file.path).open("rb")


def batches(files: Sequence[LogFile], limit: int, kind: Callable[[LogFile], object]) -> Iterator[list[LogFile]]:
    """Yield lists of successive files with one compression and kind. Empty files are left out.

    A list has about `limit` bytes of JSON or 1,000 files at most.
    """
    batch: list[LogFile] = []
    size = 0
    for file in files:
        if not file.size:
            continue
        is_other = bool(batch) and (file.compression, kind(file)) != (batch[0].compression, kind(batch[0]))
        if batch and (is_other or size + file.expected_bytes > limit or len(batch) == 1000):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.expected_bytes
    if batch:
        yield batch


class LogBatch(Struct, frozen=True):
    """Files with new, whole lines, and the positions after them, if the store should know them.

    Call `commit` when both are in the store. Otherwise the same lines come again.
    """

    files: tuple[LogFile, ...]
    positions: tuple[FilePosition, ...] | None
    commit: Callable[[], None]


class LiveLog(Protocol):
    """A log that grows. All methods are called by one thread."""

    def waiting(self) -> int:
        """Return the approximate number of bytes that can be taken now. Raises ReplayError if no more will come."""
        ...

    def take(self, spool: Path, limit: int) -> LogBatch:
        """Return about `limit` bytes of new lines, oldest first. New files are created in `spool`."""
        ...
