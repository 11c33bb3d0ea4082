"""DuckDB as this project uses it: in memory, without extensions, spilling where it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from replay.errors import StoreError
from replay.storage.directory import store_error

FEW_PARTS = 8
"""The questions about so many parts need little memory, and less time than an engine takes to start anew."""
INGEST_MEMORY = "768MB"
"""What DuckDB may use while it reads a log, before it writes to disk. Near the limit it gives memory back and asks for it anew."""
QUERY_MEMORY = "320MB"
"""What it may use for queries over a whole store, whose rows then need room in Python too."""
PART_MEMORY = "256MB"
"""What it may use in each process that reads parts."""


def connect(temporary: str, threads: int, memory: str = PART_MEMORY) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB that spills to `temporary` and never loads an extension."""
    connection = duckdb.connect(
        config={
            "memory_limit": memory,
            "temp_directory": temporary,
            "threads": threads,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
    )
    # Many questions read the same files, none of which ever changes. It is an option of an extension, which begins later.
    return connection.execute("set parquet_metadata_cache = true")


def literal(text: object) -> str:
    """A string literal of SQL, where a parameter is not possible."""
    return "'" + str(text).replace("'", "''") + "'"


@contextmanager
def ingest_errors(location: str) -> Iterator[None]:
    """Say what the system and DuckDB refuse while a store is written as `StoreError`."""
    try:
        yield
    except OSError as error:
        raise store_error(error, location) from error
    except duckdb.Error as error:
        raise StoreError(f"the log cannot be ingested: {' '.join(str(error).split())}") from error
