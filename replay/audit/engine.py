"""DuckDB with its settings: in memory, without extensions, spilling into a given directory."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from replay.errors import StoreError
from replay.on_demand import duckdb
from replay.storage.directory import store_error

FEW_PARTS = 8
"""Number of parts up to which queries need little memory. Up to it, a new start of the engine costs more than it saves.
"""
FEW_BYTES = 16 << 20
"""Size of a store in bytes up to which the same holds, however many parts it has: that of a log of 250 MB."""
INGEST_MEMORY = "704MB"
"""Memory limit of an ingest.

Above it, DuckDB writes to disk. Near it, DuckDB frees and allocates memory again and again.
"""
QUERY_MEMORY = "320MB"
"""Memory limit of queries over a whole store. Their rows also need room in Python."""
PART_MEMORY = "256MB"
"""Memory limit in each process that reads parts."""


_of_stores: dict[str, duckdb.DuckDBPyConnection] = {}
"""Connections of the open stores of this process, by the directory into which they spill."""

# A child has the memory of a connection, but not its threads. At the end, DuckDB lists what is left of it as leaks.
os.register_at_fork(after_in_child=_of_stores.clear)
atexit.register(_of_stores.clear)


def running(temporary: str) -> duckdb.DuckDBPyConnection | None:
    """Return the connection of an open store of this process that spills to `temporary`, if it has started."""
    return _of_stores.get(temporary)


def connect(temporary: str, threads: int, memory: str = PART_MEMORY) -> duckdb.DuckDBPyConnection:
    """Return an in-memory DuckDB that spills to `temporary` and never loads an extension."""
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
    """Return a string literal of SQL, for places where a parameter is not possible."""
    return "'" + str(text).replace("'", "''") + "'"


class Engine:
    """The DuckDB of a store in this process.

    It starts with the first query, because the start takes as long as a few queries.
    """

    def __init__(self, temporary: str, views: Callable[[], str]) -> None:
        """The engine spills to `temporary`. `views` returns the SQL of the store's current views."""
        self._temporary = temporary
        self._views = views
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._memory = ""  # what the connection may use; empty where its views are not those of the store
        self._is_spent = False  # whether it goes with the next question
        self._prepared: list[str] = []

    def connection(self, memory: str = QUERY_MEMORY) -> duckdb.DuckDBPyConnection:
        """Return the connection, with the views and the prepared queries."""
        if self._is_spent:
            self.stop()
        if self._connection is None:
            self._connection = _of_stores[self._temporary] = connect(self._temporary, os.cpu_count() or 1, memory)
        elif memory != self._memory:
            self._connection.execute(f"set memory_limit = {literal(memory)}")
        else:
            return self._connection
        self._memory = memory
        for text in (self._views(), *self._prepared):
            self._connection.execute(text)
        return self._connection

    def prepare(self, text: str) -> None:
        """Run SQL that defines views or sets variables, now and after every new start of the engine."""
        self.connection().execute(text)
        self._prepared.append(text)

    def refresh(self) -> None:
        """Define the views again before the next query."""
        self._memory = ""

    def spend(self) -> None:
        """Close the engine, to return the memory of a large ingest. The next query starts a new one."""
        self._is_spent = True

    def stop(self) -> None:
        """Close the engine and release its memory."""
        self._is_spent = False
        if self._connection is not None:
            del _of_stores[self._temporary]
            self._connection.close()
            self._connection = None


@contextmanager
def ingest_errors(location: str) -> Iterator[None]:
    """Turn errors of the system and of DuckDB during a write into `StoreError`."""
    try:
        yield
    except OSError as error:
        raise store_error(error, location) from error
    except duckdb.Error as error:
        raise StoreError(f"the log cannot be ingested: {' '.join(str(error).split())}") from error
