"""SQL of users over a store: read-only, without access to any other file, and with secrets hidden by default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from replay.audit import queries
from replay.audit.answer import decision_views
from replay.audit.arrow import frame_from_relation
from replay.audit.engine import connect, literal
from replay.audit.part import Tables
from replay.errors import ReplayError
from replay.kube.redact import SECRETS, ObjectRedactors, SecretRow
from replay.on_demand import duckdb, pl

MOST_ROWS = 5_000_000
"""Maximum number of rows of a result. They are in memory together."""
_SHOWN = frozenset({"request", "reject", "file", "decision", "decided_request", "chosen_decision"})
_NAMED = ", ".join(f"`{name}`" for name in sorted(_SHOWN))
_BELOW = frozenset({"stored_request", "stored_reject", "counted_row"})
"""The views below the redacted ones. Not even a table of the query itself may have such a name."""
_OWN_SCHEMAS, _OWN_CATALOGS = frozenset({"", "main"}), frozenset({"", "temp", "memory"})
_GENERATORS = frozenset({"unnest", "range", "generate_series", "repeat", "json_each", "json_tree"})
"""Table functions that read only their arguments."""
_EXPLAIN = re.compile(r"^(\s|--[^\n]*\n|/\*.*?\*/)*explain\s+(analyze\s+)?", re.IGNORECASE | re.DOTALL)
_OVER = "create or replace temp view {} as select * replace ({}) from {}"
_REJECTED = "if(text ilike '%secret%', '(redacted)', text) as text"
"""Replacement for a line that may show a Secret. Its data cannot be located in a line that is not JSON."""
_HIDDEN = "resource in ('secrets', 'tokenreviews') or subresource = 'token'"


class StoreReader:
    """A connection that can only read the views of one store."""

    def __init__(self, tables: Tables, temporary: str, *, threads: int, redact: bool) -> None:
        """Define the views and then lock the connection: no other file and no setting can be reached."""
        self._connection = connect(temporary, threads)
        execute = self._connection.execute
        execute(tables.views())
        self._redact = redact
        if redact:
            self._hide()
        execute(decision_views())
        paths = (*tables.rows, *tables.dropped, *tables.files, *tables.rejects)
        execute(f"set allowed_paths = [{', '.join(map(literal, paths))}]")
        execute("set enable_external_access = false")
        execute("set lock_configuration = true")

    def _hide(self) -> None:
        """Replace the store's view by a redacted one. After that, queries cannot name the original view or its files.

        Columns stay. Bodies with credentials are null, and texts about Secrets have the Secret's data masked.
        """
        rows: Sequence[SecretRow] = self._connection.sql(queries.text("secret_bodies")).fetchall()
        redactors = ObjectRedactors(lambda: rows, redact=True)

        def shown(namespace: str, name: str, text: str) -> str:
            return redactors.redactor_for(SECRETS, namespace, name).text(text)

        self._connection.create_function("shown_of_secret", shown, ["varchar"] * 3, "varchar")
        execute = self._connection.execute
        execute("alter view request rename to stored_request")
        execute("alter view reject rename to stored_reject")
        bodies = [f"if({_HIDDEN}, null, {name}) as {name}" for name in ("request_object", "response_object")]
        texts = [
            f"if(resource = 'secrets', shown_of_secret(\"namespace\", object_name, {name}::varchar), {name}) as {name}"
            for name in ("status_message", "annotations")
        ]
        execute(_OVER.format("request", ", ".join((*bodies, *texts)), "stored_request"))
        execute(_OVER.format("reject", _REJECTED, "stored_reject"))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def read(self, text: str, parameters: Mapping[str, str]) -> pl.DataFrame:
        """Return the rows of one SELECT. Parameters are both variables (`getvariable`) and named parameters (`$name`).

        Raises ReplayError for anything other than one SELECT, and with DuckDB's message if it fails.
        """
        try:
            statement = _one(duckdb.extract_statements(text))
            if self._redact:
                self._require_shown(statement.query)
            for name, value in parameters.items():
                self._connection.execute(f"set variable {_identifier(name)} = {literal(value)}")
            named = {name: _value(parameters[name]) for name in statement.named_parameters if name in parameters}
            missing = sorted(set(statement.named_parameters) - named.keys())
            if missing:
                raise ReplayError(f"the query wants --param {missing[0]}=…")
            return _frame(self._connection.sql(statement.query, params=named))
        except duckdb.Error as error:
            raise ReplayError(" ".join(str(error).split())) from error

    def _require_shown(self, query: str) -> None:
        """Raise ReplayError for a query that reads more than the redacted views and its own tables."""
        selected = _EXPLAIN.sub("", query)
        (row,) = self._connection.execute("select json_serialize_sql(?)", [selected]).fetchall()
        tree = orjson.loads(row[0])
        if tree["error"]:
            raise ReplayError(
                "the query is of a form in which Secrets cannot be hidden: write a SELECT, or give --no-redact"
            )
        nodes = [*_nodes(tree["statements"])]
        names = {entry["key"] for node in nodes for entry in node.get("cte_map", {}).get("map", ())}
        for node in nodes:
            name = _source(node)
            if name is not None and name not in (_SHOWN | names) - _BELOW:
                raise ReplayError(
                    f"`{name}` cannot be read while Secrets are hidden: ask {_NAMED}, or give --no-redact"
                )


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all nodes of a serialized query, as deep as DuckDB's parser allows."""
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _nodes(each)


def _source(node: dict[str, Any]) -> str | None:
    """Return the source that a query node reads, or None if it reads nothing or only its arguments."""
    match node.get("type"):
        case "BASE_TABLE":
            is_own = node["schema_name"] in _OWN_SCHEMAS and node["catalog_name"] in _OWN_CATALOGS
            name = str(node["table_name"])
            return name if is_own and name.isidentifier() else ".".join((node["schema_name"], name)).strip(".")
        case "SHOW_REF" if node["show_type"] == "SHOW":
            return str(node["table_name"])
        case "TABLE_FUNCTION":
            name = str(node["function"]["function_name"])
            return None if name in _GENERATORS else name
    return None


def _frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Return the rows of a query. Raises ReplayError before too many rows fill the memory."""
    rows = frame_from_relation(relation.limit(MOST_ROWS + 1))
    if rows.height > MOST_ROWS:
        raise ReplayError(f"the query gives more than {MOST_ROWS} rows: count them in SQL, or add a limit")
    return rows


def _one(statements: Sequence[Any]) -> Any:
    if len(statements) != 1:
        raise ReplayError(f"one query is run at a time, not {len(statements)}")
    if statements[0].type not in {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}:
        raise ReplayError("only SELECT is run: a store is read-only")
    return statements[0]


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise ReplayError(f"`{name}` is not a parameter name")
    return f'"{name}"'


def _value(text: str) -> Any:
    """Return a number or a list as JSON, and anything else as text."""
    if text[:1] in "-0123456789[":
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    return text
