"""A followed file. It is held open, so that it is read to its end even if it is renamed or removed."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from msgspec import Struct

from replay.audit.catalog import Position
from replay.audit.file.altered import AlteredError
from replay.audit.source import FileFingerprint, LogFile, open_log, opened_file, place_of, plain_file, shown, stamp_of

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

    def is_read(self, position: Position | None) -> bool:
        """Return whether nothing follows a position, not even a line without an end."""
        if self._read_stamp == self.stamp:
            return not self._rest
        return not self.is_compressed and self.stamp.size == (position.offset if position else 0)

    def waiting(self, position: Position | None, *, is_whole: bool) -> int:
        """Return the approximate number of bytes of lines after a position. See `piece`."""
        if self._read_stamp == self.stamp:
            return self._rest if is_whole else 0
        if self.is_compressed:
            return self._file.expected_bytes
        size = self.stamp.size - (position.offset if position else 0) if self.head else 0
        return max(0, size)  # a shorter file with the same head is a copy that is being made

    def piece(self, known_position: Position | None, target: Path, limit: int, *, is_whole: bool) -> Piece | None:
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
            return Piece(self, stamp, self._file, None, 0)
        self.look()
        if self.head != head:
            return None  # truncated meanwhile: what was read may be of both files
        if not lines.octets:
            self.remember(stamp, lines.rest)
            return None
        tail = _digest((overlap + lines.tail)[-_KNOWN_BY:])
        position = Position(head, tail, begin.offset + lines.octets, begin.lines + lines.ends) if head else None
        return Piece(self, stamp, plain_file(shown(self.path), target, begin.lines), position, lines.rest)

    def remember(self, stamp: FileFingerprint, rest: int | None) -> None:
        """Note that all lines of the file are taken except `rest` bytes. None means that lines are left."""
        if rest is not None:
            self._read_stamp, self._rest = stamp, rest

    def _begin(self, position: Position | None, stack: ExitStack) -> tuple[BinaryIO, Position, bytes]:
        """Return a stream after the position (from the start for another file), the position, and the bytes before it."""
        if position is not None:
            stream = stack.enter_context(self._stream())
            overlap = _skip(stream, position.offset)
            if _digest(overlap) == position.tail:
                return stream, position, overlap
        return stack.enter_context(self._stream()), Position(self.head, _digest(b""), 0, 0), b""

    def _stream(self) -> BinaryIO:
        """Return the decompressed content of the file."""
        if self.is_compressed:
            return open_log(self._file)
        stream = os.fdopen(os.dup(self._descriptor), "rb")
        stream.seek(0)
        return stream


class Piece(Struct, frozen=True):
    """Lines of a file at one time, and the position after them, if any.

    `rest` is the size of a remaining line without an end, or None if lines remain.
    """

    followed: FollowedFile
    stamp: FileFingerprint
    file: LogFile
    position: Position | None
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
