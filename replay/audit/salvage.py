"""Recovery of the usable parts of a damaged file, or of one with lines that are too long. Only the lost part is set aside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from replay.audit.compressed import AlteredError, is_intact
from replay.audit.source import LogFile, open_log, plain_file

# Between documents, one object directly follows another. Within a document a comma separates objects, and within a
# string the quotes are escaped. So damage does not hide the start of the next document.

_BETWEEN = re.compile(rb'\}(\s*)(?=\{\s*")')
_AROUND = 1 << 12
"""Number of bytes of white space that are searched between documents."""
_READ = 1 << 22


class LogDocument(NamedTuple):
    """A document on one line, with the line of the file on which it begins, from 1."""

    line: int
    text: bytes


def documents(stream: BinaryIO, longest: int) -> Iterator[LogDocument]:
    """Yield the documents of a stream. Of a document longer than `longest` bytes, only the beginning.

    Errors of reading propagate.
    """
    rest, line, start = b"", 1, 0
    while True:
        chunk = stream.read(_READ)
        text, begin = rest + chunk, 0
        for separator in _BETWEEN.finditer(text, start):
            if not chunk or separator.end() + _AROUND < len(text):
                yield _document(text[begin : separator.end()], line, longest)
                line += text.count(b"\n", begin, separator.end())
                begin = separator.end()
        rest = text[begin:]
        if len(rest) > longest + _READ:  # of what is too long the beginning is enough
            cut = len(rest) - 2 * _AROUND
            line += rest.count(b"\n", longest + 1, cut)
            rest = rest[: longest + 1] + rest[cut:]
        start = max(len(rest) - 2 * _AROUND, 0)
        if not chunk:
            if rest.strip():
                yield _document(rest, line, longest)
            return


def _document(text: bytes, line: int, longest: int) -> LogDocument:
    blank = len(text) - len(text.lstrip())
    return LogDocument(line + text.count(b"\n", 0, blank), text[: longest + 1].strip().replace(b"\n", b" ") + b"\n")


LONGEST_READ = 1 << 28
"""The longest line that is read, in bytes. A LIST response with all objects of a large cluster is about as long."""
BLANK = b" \t\r\n"
"""White space of a line. A line of only these is blank to the JSON reader."""
PLACEHOLDER = b"0\n"
"""Replacement for a skipped line, so that other lines keep their numbers. It is JSON, but not an event."""
_CHUNK = 1 << 20
Documents = Callable[[Iterable[bytes]], Iterator[bytes]]
"""Function that returns one line for each line."""


class DamagedError(Exception):
    """A file that cannot be read to its end. The first `trusted` decompressed bytes are unchanged."""

    def __init__(self, trusted: int | None = None) -> None:
        """Without a number, all decompressed bytes are trusted."""
        super().__init__("damaged")
        self.trusted = trusted


class Rewritten(NamedTuple):
    """A file whose lines can all be read, with the length of the longest in bytes."""

    file: LogFile
    longest: int


def is_altered(file: LogFile) -> bool:
    """Return whether a gzip file fails its own checks. Raises `OSError`.

    DuckDB does not check gzip. It checks zstd.
    """
    if file.compression != "gzip":
        return False
    with Path(file.path).open("rb") as compressed:
        return not is_intact(compressed)


def salvage(file: LogFile, target: Path) -> LogFile:
    """Write the readable part of a damaged file as a plain file with the same name. Raises `OSError` if it cannot write.

    Data before an early end is kept, and so are whole gzip members and zstd frames before a changed one. Nothing of the
    changed one is kept, because its wrong bytes cannot be found.
    """
    with target.open("wb") as plain, open_log(file) as stream:
        try:
            while chunk := _read(stream, _CHUNK):
                plain.write(chunk)
        except DamagedError as error:
            plain.truncate(error.trusted)
    return plain_file(file.name, target)


def rewritten(file: LogFile, target: Path, unwrapped: Documents | None = None) -> Rewritten:
    """Write the lines of a file as a plain file, with a placeholder for each line that is too long or not text.

    `unwrapped` returns a line for each line, for lines that are not plain JSON. Raises `DamagedError` if the file
    cannot be read to its end, `OSError` if the lines cannot be written.
    """
    longest = 0
    with open_log(file) as stream, target.open("wb") as plain:
        lines = text_lines(stream)
        for line in unwrapped(lines) if unwrapped else lines:
            longest = max(longest, len(line))
            plain.write(line)
    return Rewritten(plain_file(file.name, target), longest)


def split(file: LogFile, target: Path) -> Rewritten:
    """Write the documents of a file, one per line, with a placeholder for each that is too long or not text.

    Raises `OSError`.
    """
    longest = 0
    with open_log(file) as stream, target.open("wb") as plain:
        for _, text in documents(stream, LONGEST_READ):
            line = text if len(text) <= LONGEST_READ and _is_text(text) else PLACEHOLDER
            longest = max(longest, len(line))
            plain.write(line)
    return Rewritten(plain_file(file.name, target), longest)


def text_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a stream, with placeholders. Raises `DamagedError` at damage."""
    while line := _read_line(stream):
        yield line if len(line) <= LONGEST_READ and _is_text(line) else PLACEHOLDER
        while len(line) > LONGEST_READ and not line.endswith(b"\n"):
            line = _read_line(stream)


def _read(stream: BinaryIO, size: int) -> bytes:
    try:
        return stream.read1(size) if hasattr(stream, "read1") else stream.read(size)
    except AlteredError as error:
        raise DamagedError(error.start) from error
    except (OSError, EOFError) as error:
        raise DamagedError from error


def _read_line(stream: BinaryIO) -> bytes:
    try:
        return stream.readline(LONGEST_READ + 1)
    except (OSError, EOFError) as error:
        raise DamagedError from error


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
