"""The beginning of a file, decompressed."""

from __future__ import annotations

from contextlib import suppress

import duckdb

from replay.audit import queries
from replay.audit.format.recognise import HEAD
from replay.audit.source import LogFile, open_log


def head_of(file: LogFile, connection: duckdb.DuckDBPyConnection) -> bytes:
    """What a file begins with; nothing of one that cannot be read."""
    if file.compression == "zstd":  # Python has no reader of it that is started as fast as DuckDB's
        with suppress(duckdb.Error, UnicodeDecodeError):
            rows = connection.execute(queries.text("ingest_head"), {"file": file.path, "bytes": HEAD}).fetchall()
            return "\n".join(line for (line,) in rows).encode()
        return b""
    with suppress(OSError, EOFError), open_log(file) as stream:
        return stream.read(HEAD)
    return b""
