"""Where events come from: the files behind the arguments of a command, and the bytes of what is no plain file."""

from __future__ import annotations

import glob
import gzip
import io
import os
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from replay.errors import AuditLogError

STDIN = "-"
_BOM = b"\xef\xbb\xbf"
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
_READABLE = ("none", "gzip", "zstd")
_GROWTH = {"none": 1, "gzip": 12, "zstd": 20}
_CHUNK = 1 << 20
_PATTERN = frozenset("*?[]{}")


@dataclass(frozen=True)
class LogFile:
    """One file of an audit log: `name` is what the operator calls it, `path` where its bytes are now.

    `compression` is `none`, `gzip` or `zstd`, told from the first bytes, never from the name; `size` is in bytes as stored.
    """

    name: str
    path: str
    compression: str
    size: int

    @property
    def expected_bytes(self) -> int:
        """About how many bytes of JSON the file holds; only used to cut work into pieces."""
        return self.size * _GROWTH[self.compression]


def log_files(arguments: Sequence[str | Path], spool: Path) -> list[LogFile]:
    """The files that arguments name: files, directories (searched to the bottom), globs, and `-` for standard input.

    The order is that of the paths, whatever that of the arguments; no file counts twice. What cannot be read twice (standard
    input, pipes) is copied to `spool`. Raises `AuditLogError` if an argument names nothing or a format that is not read.
    """
    found: dict[str, LogFile] = {}
    for argument in arguments:
        for path in _expanded(str(argument)):
            key = path if path == STDIN else os.path.realpath(path)
            if key not in found:
                found[key] = _log_file(path, spool / f"input-{len(found)}")
    if not found:
        raise AuditLogError("no audit log given: name files, directories, globs, or `-` for standard input")
    return sorted(found.values(), key=lambda file: file.name)


def _expanded(argument: str) -> list[str]:
    """The paths of one argument."""
    if argument == STDIN or (os.path.exists(argument) and not os.path.isdir(argument)):  # noqa: PTH110, PTH112 - any text
        return [argument]
    if os.path.isdir(argument):  # noqa: PTH112 - any text
        paths = [str(path) for path in Path(argument).rglob("*") if path.is_file() and not path.name.startswith(".")]
        if not paths:
            raise AuditLogError("the directory holds no file", path=argument)
        return sorted(paths)
    paths = sorted(path for path in glob.glob(argument, recursive=True) if not os.path.isdir(path))  # noqa: PTH112, PTH207
    if not paths:
        raise AuditLogError("no such file", path=argument)
    return paths


def _log_file(path: str, spooled: Path) -> LogFile:
    """Look at the first bytes; what is no regular file, or begins with a byte order mark, is copied first."""
    try:
        if path == STDIN:
            _spool(sys.stdin.buffer, spooled)
            return _sniffed("<stdin>", str(spooled))
        if not Path(path).is_file():
            with open(path, "rb") as pipe:  # noqa: PTH123 - /dev/fd/63 is a name, not a path to normalise
                _spool(pipe, spooled)
            return _sniffed(path, str(spooled))
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            if file.read(len(_BOM)) == _BOM:
                _spool(file, spooled)
                return _sniffed(path, str(spooled))
        if _PATTERN & set(path) or "://" in path:
            spooled.symlink_to(os.path.abspath(path))  # noqa: PTH100 - DuckDB would take the name for a pattern or an address
            return _sniffed(path, str(spooled))
        return _sniffed(path, path)
    except OSError as error:
        raise AuditLogError(f"cannot be read: {(error.strerror or str(error)).lower()}", path=path) from error


def _spool(source: BinaryIO, target: Path) -> None:
    with target.open("wb") as file:
        start = source.read(len(_BOM))
        file.write(b"" if start == _BOM else start)
        shutil.copyfileobj(source, file, _CHUNK)


def _sniffed(name: str, path: str) -> LogFile:
    """A file with its compression."""
    file = Path(path)
    with file.open("rb") as stream:
        start = stream.read(8)
    compression = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "none")
    if compression not in _READABLE:
        raise AuditLogError(f"{compression} compression is not read: decompress it first", path=name)
    return LogFile(name, path, compression, file.stat().st_size)


def open_log(file: LogFile) -> BinaryIO:
    """The decompressed bytes of a file, to be closed by the caller."""
    if file.compression == "gzip":
        return cast("BinaryIO", gzip.open(file.path, "rb"))
    if file.compression == "zstd":
        import pyarrow as pa  # noqa: PLC0415 - a quarter of a second, for damaged files only

        return cast("BinaryIO", io.BufferedReader(pa.input_stream(file.path, compression="zstd"), _CHUNK))
    return Path(file.path).open("rb")


def salvage(file: LogFile, target: Path) -> LogFile:
    """What can be decompressed of a damaged file, as a plain one under the same name."""
    with target.open("wb") as plain:
        try:
            with open_log(file) as stream:
                while chunk := stream.read1(_CHUNK) if hasattr(stream, "read1") else stream.read(_CHUNK):
                    plain.write(chunk)
        except (OSError, EOFError, zlib.error):
            pass  # the caller says that the file is damaged; what came before the damage is kept
    return LogFile(file.name, str(target), "none", target.stat().st_size)


def batches(files: Sequence[LogFile], limit: int) -> Iterator[list[LogFile]]:
    """Runs of files of one compression, of about `limit` bytes of JSON or 1,000 files at most; empty files are left out."""
    batch: list[LogFile] = []
    size = 0
    for file in files:
        if not file.size:
            continue
        if batch and (
            file.compression != batch[0].compression or size + file.expected_bytes > limit or len(batch) == 1000
        ):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.expected_bytes
    if batch:
        yield batch
