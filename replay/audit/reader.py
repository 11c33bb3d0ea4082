"""SQL of other people over a store: read-only, without access to any other file, secrets hidden by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import orjson
import polars as pl

from replay.audit import queries
from replay.audit.arrow import frame_from_relation
from replay.audit.engine import connect, literal
from replay.audit.part import Tables
from replay.errors import ReplayError

_READS = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
_HIDDEN = "resource in ('secrets', 'tokenreviews') or subresource = 'token'"


class StoreReader:
    """A connection that can read the views of one store and nothing else."""

    def __init__(self, tables: Tables, temporary: str, *, threads: int, redact: bool) -> None:
        """Define the views, then shut the door: no other file, no setting can be reached from here on."""
        self._connection = connect(temporary, threads)
        execute = self._connection.execute
        execute(tables.views())
        if redact:
            # The view of the store keeps its columns; bodies that hold credentials are null.
            execute("alter view request rename to stored_request")
            bodies = ", ".join(
                f"if({_HIDDEN}, null, {name}) as {name}" for name in ("request_object", "response_object")
            )
            execute(f"create or replace temp view request as select * replace ({bodies}) from stored_request")  # noqa: S608
        execute(queries.text("ingest_decision_views"))
        paths = (*tables.rows, *tables.dropped, *tables.files, *tables.rejects)
        execute(f"set allowed_paths = [{', '.join(map(literal, paths))}]")
        execute("set enable_external_access = false")
        execute("set lock_configuration = true")

    def close(self) -> None:
        """Give up the connection."""
        self._connection.close()

    def read(self, text: str, parameters: Mapping[str, str]) -> pl.DataFrame:
        """The rows of one SELECT; parameters are both variables (`getvariable`) and named parameters (`$name`).

        Raises ReplayError for anything else than one SELECT, and with what DuckDB says for one that fails.
        """
        try:
            statement = _one(duckdb.extract_statements(text))
            for name, value in parameters.items():
                self._connection.execute(f"set variable {_identifier(name)} = {literal(value)}")
            named = {name: _value(parameters[name]) for name in statement.named_parameters if name in parameters}
            missing = sorted(set(statement.named_parameters) - named.keys())
            if missing:
                raise ReplayError(f"the query wants --param {missing[0]}=…")
            return frame_from_relation(self._connection.sql(statement.query, params=named))
        except duckdb.Error as error:
            raise ReplayError(" ".join(str(error).split())) from error


def _one(statements: Sequence[Any]) -> Any:
    if len(statements) != 1:
        raise ReplayError(f"one query is run at a time, not {len(statements)}")
    if statements[0].type not in _READS:
        raise ReplayError("only SELECT is run: a store is read-only")
    return statements[0]


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise ReplayError(f"`{name}` is no name of a parameter")
    return f'"{name}"'


def _value(text: str) -> Any:
    """A number or a list is one; anything else is text."""
    if text[:1] in "-0123456789[":
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    return text
