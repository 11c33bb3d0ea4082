"""Reader of a file's decompressed beginning."""

from __future__ import annotations

from contextlib import suppress

import duckdb

from replay.audit import queries
from replay.audit.format.recognise import HEAD
from replay.audit.source import LogFile, open_log

_LONGEST_LINES = (1 << 21, 1 << 24)
"""Lengths of lines that are read, in bytes. DuckDB fills a buffer of twice the length before it returns the first line.
"""


def head_of(file: LogFile, connection: duckdb.DuckDBPyConnection) -> bytes:
    """Return the first bytes of a file, none if it cannot be read."""
    if file.compression == "zstd":  # Python has no reader of it that is started as fast as DuckDB's
        for longest in _LONGEST_LINES:
            head = queries.filled("ingest_head", buffer=str(2 * longest), longest=str(longest))
            with suppress(duckdb.Error, UnicodeDecodeError):
                rows = connection.execute(head, {"file": file.path, "bytes": HEAD}).fetchall()
                return "\n".join(line for (line,) in rows).encode()
        return b""
    with suppress(OSError, EOFError), open_log(file) as stream:
        return stream.read(HEAD)
    return b""
