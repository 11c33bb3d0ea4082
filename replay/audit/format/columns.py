"""The JSON columns of a log, in the two forms that DuckDB needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Column: TypeAlias = "str | Mapping[str, Column] | Sequence[Column]"
"""The name of a type, the fields of an object, or the type of an array's items."""
Columns: TypeAlias = Mapping[str, Column]

STATUS: Columns = {"status": "VARCHAR", "message": "VARCHAR", "reason": "VARCHAR", "code": "INTEGER"}
REFERENCE: Columns = {
    "resource": "VARCHAR",
    "namespace": "VARCHAR",
    "name": "VARCHAR",
    "uid": "VARCHAR",
    "apiGroup": "VARCHAR",
    "apiVersion": "VARCHAR",
    "resourceVersion": "VARCHAR",
    "subresource": "VARCHAR",
}
EVENT: Columns = {
    "kind": "VARCHAR",
    "apiVersion": "VARCHAR",
    "items": "JSON",
    "level": "VARCHAR",
    "auditID": "VARCHAR",
    "stage": "VARCHAR",
    "requestURI": "VARCHAR",
    "verb": "VARCHAR",
    "user": "JSON",
    "impersonatedUser": "JSON",
    "sourceIPs": ["VARCHAR"],
    "userAgent": "VARCHAR",
    "objectRef": REFERENCE,
    "responseStatus": STATUS,
    "requestObject": "JSON",
    "responseObject": "JSON",
    "requestReceivedTimestamp": "VARCHAR",
    "stageTimestamp": "VARCHAR",
    "annotations": "JSON",
}
"""Fields of an `audit.k8s.io/v1` Event that are read, and `items` of an EventList. Bodies stay JSON text."""


def quoted(name: str) -> str:
    """Return the name of a field as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def type_of(column: Column) -> str:
    """Return a column as a DuckDB type."""
    if isinstance(column, str):
        return column
    if isinstance(column, Mapping):
        return f"STRUCT({', '.join(f'{quoted(name)} {type_of(each)}' for name, each in column.items())})"
    return f"{type_of(column[0])}[]"


def read_columns(columns: Columns) -> str:
    """Return columns as `read_json` takes them."""
    return "{" + ", ".join(f"{quoted(name)}: '{type_of(each)}'" for name, each in columns.items()) + "}"


def structure(columns: Columns) -> str:
    """Return columns as `json_transform` takes them."""
    return json.dumps(columns)
