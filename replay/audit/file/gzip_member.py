"""Reader of gzip as in RFC 1952: successive members, each with a CRC and a size, which are both checked."""

from __future__ import annotations

import io
import zlib
from typing import BinaryIO

from replay.audit.file.altered import AlteredError

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
