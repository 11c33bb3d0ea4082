"""Compressed logs, gzip (RFC 1952) and Zstandard (RFC 8878), with their check sums verified."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple


class AlteredError(OSError):
    """Compressed data that is damaged. Nothing from `start` on can be trusted, counted in decompressed bytes."""

    def __init__(self, start: int) -> None:
        """`start` is where the damaged member or frame begins."""
        super().__init__("altered")
        self.start = start


_GZIP = zlib.MAX_WBITS | 16
_CHUNK = 1 << 18


class GzipReader(io.RawIOBase):
    """The content of a gzip file.

    Reading raises `AlteredError` if a check fails, and `EOFError` if the file ends too early. Zeros after the last
    member are padding. Anything else that is not a member is an alteration.
    """

    def __init__(self, file: BinaryIO) -> None:
        """`file` is an open file, which is closed with this one."""
        self._file = file
        self._member = zlib.decompressobj(_GZIP)
        self._rest = b""
        self._position = 0
        self._start = 0
        self._is_begun = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a part of the buffer and return the number of bytes, 0 at the end."""
        while self._has_more():
            try:
                data = self._member.decompress(self._rest, len(buffer))
            except zlib.error as error:
                raise AlteredError(self._start) from error
            self._rest = self._member.unconsumed_tail
            if data:
                buffer[: len(data)] = data
                self._position += len(data)
                return len(data)
        return 0

    def _has_more(self) -> bool:
        """Return whether there is more to decompress.

        Go to the next member if one has ended, and read more bytes if all are used.
        """
        if self._member.eof:
            self._rest = self._member.unused_data
            self._member = zlib.decompressobj(_GZIP)
            self._start, self._is_begun = self._position, False
        # Zeros pad the end only between members. Inside of a member they are data.
        while not self._rest.lstrip(b"" if self._is_begun else b"\0"):
            self._rest = self._file.read(_CHUNK)
            if not self._rest:
                if self._is_begun:
                    raise EOFError
                return False
        self._is_begun = True
        return True

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()


def is_intact(file: BinaryIO) -> bool:
    """Return whether all members of a file are whole and unchanged."""
    buffer = bytearray(1 << 20)
    reader = GzipReader(file)
    try:
        while reader.readinto(buffer):
            pass
    except (OSError, EOFError):
        return False
    return True


_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50
_RUN_LENGTH = 1
_DICTIONARY_BYTES = (0, 1, 2, 4)
_SIZE_BYTES = (0, 2, 4, 8)


class ZstdFrame(NamedTuple):
    """Start and end of a frame in the file. The end is None if the file cuts it off."""

    start: int
    end: int | None


class ZstdReader(io.RawIOBase):
    """Content of a zstd file: successive frames, whose ends are known without decompression.

    So a complete frame that cannot be decompressed differs from one that the file cuts off. Reading raises
    `AlteredError` for a damaged frame, and `EOFError` for one that the file cuts off.
    """

    def __init__(self, file: BinaryIO) -> None:
        """`file` is an open file, which is closed with this one."""
        self._file = file
        self._frames = _frames(file)
        self._frame = ZstdFrame(0, 0)
        self._stream: BinaryIO | None = None
        self._position = 0
        self._start = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a part of the buffer and return the number of bytes, 0 at the end."""
        while self._stream is not None or self._begin():
            if data := self._read(len(buffer)):
                buffer[: len(data)] = data
                self._position += len(data)
                return len(data)
            if self._frame.end is None:
                raise EOFError
            self._stream = None
        return 0

    def _begin(self) -> bool:
        """Go to the next frame. Return False if there is none."""
        import pyarrow as pa  # noqa: PLC0415 - a quarter of a second, for damaged files only

        self._start = self._position
        try:
            frame = next(self._frames, None)
        except ValueError as error:
            raise AlteredError(self._start) from error
        if frame is None:
            return False
        self._frame = frame
        self._stream = pa.CompressedInputStream(pa.PythonFile(_Range(self._file, *frame), mode="r"), "zstd")
        return True

    def _read(self, size: int) -> bytes:
        assert self._stream is not None
        try:
            return self._stream.read(size)
        except OSError as error:
            if self._frame.end is None:
                raise EOFError from error
            raise AlteredError(self._start) from error

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()


class _Range(io.RawIOBase):
    """The bytes of a file between two places, or to its end."""

    def __init__(self, file: BinaryIO, start: int, end: int | None) -> None:
        self._file = file
        self._place = start
        self._end = end

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self._file.seek(self._place)
        size_left = size if self._end is None else min(size, self._end - self._place)
        data = self._file.read(size_left)
        self._place += len(data)
        return data


def _frames(file: BinaryIO) -> Iterator[ZstdFrame]:
    """Yield the frames of a file in order, without skippable frames. Raises ValueError for other data."""
    place = 0
    while True:
        file.seek(place)
        magic = file.read(4)
        if not magic:
            return
        number = int.from_bytes(magic, "little")
        if number & ~0xF == _SKIPPABLE:
            place += 8 + int.from_bytes(file.read(4), "little")
            continue
        if number != _MAGIC and len(magic) == len(_MAGIC.to_bytes(4, "little")):
            raise ValueError("this is no frame")
        end = _end(file)
        yield ZstdFrame(place, end)
        if end is None:
            return
        place = end


def _end(file: BinaryIO) -> int | None:
    """Return the end of the frame whose magic number was just read, or None if the file ends before."""
    try:
        descriptor = file.read(1)[0]
        is_single = descriptor >> 5 & 1
        size_bytes = _SIZE_BYTES[descriptor >> 6] or is_single
        file.seek((not is_single) + _DICTIONARY_BYTES[descriptor & 3] + size_bytes, io.SEEK_CUR)
        is_last = False
        while not is_last:
            first, second, third = file.read(3)
            header = first | second << 8 | third << 16
            is_last = bool(header & 1)
            # A run is stored as one byte, and the size in its header is that of the result.
            length = 1 if header >> 1 & 3 == _RUN_LENGTH else header >> 3
            file.seek(length, io.SEEK_CUR)
    except (IndexError, ValueError):
        return None
    # The check sum of a frame is optional.
    end = file.seek(4 * (descriptor >> 2 & 1), io.SEEK_CUR)
    return end if end <= file.seek(0, io.SEEK_END) else None
