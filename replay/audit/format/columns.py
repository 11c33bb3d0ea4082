"""The columns of JSON that a log is read for, stated once and written in both of DuckDB's ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Column: TypeAlias = "str | Mapping[str, Column] | Sequence[Column]"
"""The name of a type, the fields of an object, or the one kind of items of an array."""
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
"""The fields of an `audit.k8s.io/v1` Event that are read, and `items` of an EventList. Bodies stay JSON text."""


def quoted(name: str) -> str:
    """The name of a field as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def type_of(column: Column) -> str:
    """A column as a type of DuckDB."""
    if isinstance(column, str):
        return column
    if isinstance(column, Mapping):
        return f"STRUCT({', '.join(f'{quoted(name)} {type_of(each)}' for name, each in column.items())})"
    return f"{type_of(column[0])}[]"


def read_columns(columns: Columns) -> str:
    """Columns as `read_json` takes them."""
    return "{" + ", ".join(f"{quoted(name)}: '{type_of(each)}'" for name, each in columns.items()) + "}"


def structure(columns: Columns) -> str:
    """Columns as `json_transform` takes them."""
    return json.dumps(columns)
