"""Reader of successive JSON documents, with or without line ends, some of them damaged.

Between documents, one object directly follows another. Within a document a comma separates objects, and within a string
the quotes are escaped. So damage does not hide the start of the next document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

_BETWEEN = re.compile(rb'\}(\s*)(?=\{\s*")')
_AROUND = 1 << 12
"""Number of bytes of white space that are searched between documents."""
_CHUNK = 1 << 22


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
        chunk = stream.read(_CHUNK)
        text, begin = rest + chunk, 0
        for separator in _BETWEEN.finditer(text, start):
            if not chunk or separator.end() + _AROUND < len(text):
                yield _document(text[begin : separator.end()], line, longest)
                line += text.count(b"\n", begin, separator.end())
                begin = separator.end()
        rest = text[begin:]
        if len(rest) > longest + _CHUNK:  # of what is too long the beginning is enough
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
