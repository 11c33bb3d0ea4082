"""`replay ingest --follow`: the files of a log that grows and rotates, and the position in each.

A log rotates by renaming (the API server itself), by copying and truncating, and by compressing old files. So content,
not name or inode, identifies a file. If the identity is uncertain, the file is read again, and the store counts each
event once.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from collections.abc import Callable, Container, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from msgspec import Struct

from replay.audit.catalog import FilePosition
from replay.audit.compressed import AlteredError
from replay.audit.source import (
    FileFingerprint,
    LogBatch,
    LogFile,
    expanded,
    open_log,
    opened_file,
    place_of,
    plain_file,
    shown,
    stamp_of,
    unreadable,
)
from replay.errors import AuditLogError

# A followed file. It is held open, so that it is read to its end even if it is renamed or removed.

_KNOWN_BY = 4096
"""Number of bytes of the first line, and of the end of the read part, that identify a file. They include an auditID."""
_CHUNK = 1 << 20


class FollowedFile:
    """A file of a log.

    `path` is its newest name. `is_left` means renamed or removed, so that nothing more is written to it.
    """

    def __init__(self, path: str) -> None:
        """Open a file. Raises `OSError`, and `AuditLogError` for a compression that is not supported."""
        self.path = path
        self.is_left = False
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._file = opened_file(path, self._descriptor, place_of(self._descriptor) or path)
        except BaseException:
            os.close(self._descriptor)
            raise
        self.stamp = self._file.stamp
        self._since = time.monotonic()
        self._head = ""
        self._read_stamp: FileFingerprint | None = None
        self._rest = 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    @property
    def is_compressed(self) -> bool:
        """Whether the file is compressed. Such files are written once, after a rotation."""
        return self._file.compression != "none"

    @property
    def head(self) -> str:
        """Digest that identifies the file, or "" if the file is too short."""
        if not self._head:
            with suppress(AlteredError, EOFError), self._stream() as stream:
                line, end, _ = stream.read(_KNOWN_BY).partition(b"\n")
                self._head = _digest(line) if end or len(line) == _KNOWN_BY else ""
        return self._head

    def look(self) -> None:
        """Update the state of the file. A truncated file may begin with another line."""
        stamp = stamp_of(os.fstat(self._descriptor))
        if stamp != self.stamp:
            self.stamp, self._since, self._head = stamp, time.monotonic(), ""

    def is_settled(self, seconds: float) -> bool:
        """Return whether the file has not changed for so many seconds."""
        return time.monotonic() - self._since >= seconds

    def is_read(self, position: FilePosition | None) -> bool:
        """Return whether nothing follows a position, not even a line without an end."""
        if self._read_stamp == self.stamp:
            return not self._rest
        return not self.is_compressed and self.stamp.size == (position.offset if position else 0)

    def waiting(self, position: FilePosition | None, *, is_whole: bool) -> int:
        """Return the approximate number of bytes of lines after a position. See `piece`."""
        if self._read_stamp == self.stamp:
            return self._rest if is_whole else 0
        if self.is_compressed:
            return self._file.expected_bytes
        size = self.stamp.size - (position.offset if position else 0) if self.head else 0
        return max(0, size)  # a shorter file with the same head is a copy that is being made

    def piece(self, known_position: FilePosition | None, target: Path, limit: int, *, is_whole: bool) -> _Piece | None:
        """Copy about `limit` bytes of lines after a position into `target`, or all of a compressed file.

        None if there are none.

        A line without an end waits for its end, unless the file `is_whole`. The ingest handles damage. Raises `OSError`
        if it cannot write `target`.
        """
        stamp, head = self.stamp, self.head
        try:
            with ExitStack() as stack:
                stream, begin, overlap = self._begin(known_position, stack)
                most = sys.maxsize if self.is_compressed else limit
                lines = _copy(stream, target, most, is_whole=is_whole or self.is_compressed)
        except (AlteredError, EOFError):
            return _Piece(self, stamp, self._file, None, 0)
        self.look()
        if self.head != head:
            return None  # truncated meanwhile: what was read may be of both files
        if not lines.octets:
            self.remember(stamp, lines.rest)
            return None
        tail = _digest((overlap + lines.tail)[-_KNOWN_BY:])
        position = FilePosition(head, tail, begin.offset + lines.octets, begin.lines + lines.ends) if head else None
        return _Piece(self, stamp, plain_file(shown(self.path), target, begin.lines), position, lines.rest)

    def remember(self, stamp: FileFingerprint, rest: int | None) -> None:
        """Note that all lines of the file are taken except `rest` bytes. None means that lines are left."""
        if rest is not None:
            self._read_stamp, self._rest = stamp, rest

    def _begin(self, position: FilePosition | None, stack: ExitStack) -> tuple[BinaryIO, FilePosition, bytes]:
        """Return a stream after the position (from the start for another file), the position, and the bytes before it."""
        if position is not None:
            stream = stack.enter_context(self._stream())
            overlap = _skip(stream, position.offset)
            if _digest(overlap) == position.tail:
                return stream, position, overlap
        return stack.enter_context(self._stream()), FilePosition(self.head, _digest(b""), 0, 0), b""

    def _stream(self) -> BinaryIO:
        """Return the decompressed content of the file."""
        if self.is_compressed:
            return open_log(self._file)
        stream = os.fdopen(os.dup(self._descriptor), "rb")
        stream.seek(0)
        return stream


class _Piece(Struct, frozen=True):
    """Lines of a file at one time, and the position after them, if any.

    `rest` is the size of a remaining line without an end, or None if lines remain.
    """

    followed: FollowedFile
    stamp: FileFingerprint
    file: LogFile
    position: FilePosition | None
    rest: int | None

    def done(self) -> None:
        """Note that the lines are in the store."""
        self.followed.remember(self.stamp, self.rest)


class _Lines(NamedTuple):
    """Copied lines: size, number of ends, last bytes.

    `rest` is the size of a line without an end, or None if lines remain.
    """

    octets: int
    ends: int
    tail: bytes
    rest: int | None


def _copy(stream: BinaryIO, target: Path, limit: int, *, is_whole: bool) -> _Lines:
    """Copy lines up to the limit in bytes, or to the end. With `is_whole`, a last line without an end too."""
    octets = end = count = 0
    rest: int | None = None
    with target.open("w+b") as spool:
        while chunk := stream.read(_CHUNK):
            spool.write(chunk)
            count += chunk.count(b"\n")
            end = octets + chunk.rfind(b"\n") + 1 if b"\n" in chunk else end
            octets += len(chunk)
            if end >= limit:
                break
        else:
            if is_whole and end < octets:
                end, count = octets, count + 1
            rest = octets - end
        spool.truncate(end)
        spool.seek(max(0, end - _KNOWN_BY))
        return _Lines(end, count, spool.read(), rest)


def _skip(stream: BinaryIO, octets: int) -> bytes:
    """Skip so many bytes, and return the last of them. There are fewer if the stream ends before."""
    if stream.seekable():
        stream.seek(max(0, octets - _KNOWN_BY))
        return stream.read(min(octets, _KNOWN_BY))
    last = b""
    while octets and (chunk := stream.read(min(octets, _CHUNK))):
        octets -= len(chunk)
        last = (last + chunk)[-_KNOWN_BY:]
    return last


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


SETTLED_SECONDS = 10.0
"""Seconds without a change after which a compressed or renamed file counts as complete."""
_MOST_POSITIONS = 1000
_MOST_OPEN = 256
_NEWEST = 16
"""Number of files that stay open, so that they can be read even if they move. Others are opened again when they change.
"""
_Key = tuple[int, int]


class FollowedLog:
    """Followed files (see `LiveLog`). `positions` come from the store. `report` receives messages for the operator."""

    def __init__(
        self,
        arguments: Sequence[str],
        positions: Sequence[FilePosition],
        report: Callable[[str], None],
        settled: float = SETTLED_SECONDS,
    ) -> None:
        """Follow files, directories and patterns. They need not exist yet."""
        self._arguments = arguments
        self._positions = {position.head: position for position in positions}
        self._report = report
        self._settled = settled
        self._files: dict[_Key, FollowedFile] = {}
        self._refused: set[_Key] = set()
        self._at_rest: dict[_Key, FileFingerprint] = {}

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def waiting(self) -> int:
        """See `LiveLog.waiting`."""
        self._look()
        return sum(self._waiting(file) for file in self._files_to_read())

    def take(self, spool: Path, limit: int) -> LogBatch:
        """See `LiveLog.take`. The file with the oldest last write comes first."""
        self._look()
        pieces: list[_Piece] = []
        for file in sorted(self._files_to_read(), key=lambda file: file.stamp.modified):
            target = spool / f"piece-{len(pieces)}"
            piece = file.piece(self._known(file), target, limit, is_whole=self._is_whole(file)) if limit > 0 else None
            if piece is not None:
                pieces.append(piece)
                limit -= piece.file.size
        positions = dict(self._positions)
        for position in (piece.position for piece in pieces if piece.position is not None):
            # Removed and added again, so that the order is that of use, and the oldest are forgotten.
            positions.pop(position.head, None)
            positions[position.head] = position
        newest = tuple(positions.values())[-_MOST_POSITIONS:]

        def commit() -> None:
            self._positions = {position.head: position for position in newest}
            for piece in pieces:
                piece.done()

        return LogBatch(tuple(piece.file for piece in pieces), newest, commit)

    def _look(self) -> None:
        """Refresh the list of existing files and their state."""
        paths: list[str] = []
        for argument in self._arguments:
            with suppress(AuditLogError):  # it may come
                paths += expanded(argument)
        paths_by_key: dict[_Key, str] = {}
        for path in paths:
            with suppress(FileNotFoundError):
                paths_by_key.setdefault(self._opened(path), path)
        for key, file in list(self._files.items()):
            path = paths_by_key.get(key, "")
            # Who rotates a log may still write to the renamed file for a moment (`is_settled`).
            file.is_left = file.is_left or path != file.path
            file.path = path or file.path
            file.look()
            # A removed file stays readable while it is open, so it is closed only when it is read to its end.
            if not path and file.is_read(self._known(file)):
                self._files.pop(key).close()
        self._rest(paths_by_key)

    def _rest(self, keys: Container[_Key]) -> None:
        """Close the older files that are read to their ends."""
        self._at_rest = {key: stamp for key, stamp in self._at_rest.items() if key in keys}
        for key, file in sorted(self._files.items(), key=lambda item: item[1].stamp.modified)[:-_NEWEST]:
            if file.is_read(self._known(file)):
                self._at_rest[key] = file.stamp
                self._files.pop(key).close()

    def _is_open(self, key: _Key, status: os.stat_result) -> bool:
        """Return whether a file need not be opened, or cannot be opened now."""
        is_known = key in self._files or key in self._refused or self._at_rest.get(key) == stamp_of(status)
        return is_known or len(self._files) >= _MOST_OPEN or not stat.S_ISREG(status.st_mode)

    def _opened(self, path: str) -> _Key:
        """Return the identity of a file, and open it if needed. Raises `FileNotFoundError`."""
        status = os.stat(path)  # noqa: PTH116 - any text
        key = (status.st_dev, status.st_ino)
        if not self._is_open(key, status):
            try:
                file = FollowedFile(path)
            except FileNotFoundError:
                raise
            except (OSError, AuditLogError) as error:
                self._refused.add(key)
                self._report(
                    f"{error if isinstance(error, AuditLogError) else unreadable(error, path)}; it is left out"
                )
                return key
            key = (file.stamp.device, file.stamp.inode)
            if self._files.setdefault(key, file) is not file:
                file.close()
        return key

    def _files_to_read(self) -> list[FollowedFile]:
        """Return the files with new lines. Of several copies, the longest is chosen."""
        chosen: dict[str, FollowedFile] = {}
        for file in self._files.values():
            if (waiting := self._waiting(file)) and (file.head or file.is_compressed):
                other = chosen.setdefault(file.head, file)
                if waiting > self._waiting(other):
                    chosen[file.head] = file
        return list(chosen.values())

    def _known(self, file: FollowedFile) -> FilePosition | None:
        return self._positions.get(file.head)

    def _waiting(self, file: FollowedFile) -> int:
        if file.is_compressed and not file.is_settled(self._settled):
            return 0
        return file.waiting(self._known(file), is_whole=self._is_whole(file))

    def _is_whole(self, file: FollowedFile) -> bool:
        return file.is_left and file.is_settled(self._settled)
