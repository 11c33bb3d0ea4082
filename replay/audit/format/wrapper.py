"""Ways to take a document out of its wrapper (a JSON path, text before it, fields of another API), and the columns of an event.

Columns have the two forms that DuckDB needs, for reading and for transforming.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

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


# Lines of text that contain a document. Each line of a file becomes one line, so that line numbers stay.
# A line without a document becomes a marked line, and so does a part of a document that continues later. Marked lines are skipped.

PART = "_part"
"""Field of a line that replaces a part of a document. A later line has the whole document."""
PART_LINE = b'{"%s":true}\n' % PART.encode()
"""Replacement for a line that this reading leaves out."""
_OTHER_LINE = b'{"kind":""}\n'
CONTAINER_LINE = re.compile(rb"\S+ (stdout|stderr) ([FP])(?::\S*)? ")


def after_prefix(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of each line from the first brace on."""
    for line in lines:
        start = line.find(b"{")
        if start >= 0:
            yield line[start:]
        else:
            yield _OTHER_LINE if line.strip() else line


def container_documents(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the output of a container, from the lines of its runtime.

    A line has a time, the stream, F for an end of line or P for a part, and the text (`k8s.io/cri-client/pkg/logs`). A
    document replaces the line of its last part.
    """
    parts: dict[bytes, list[bytes]] = {}
    for line in lines:
        head = CONTAINER_LINE.match(line)
        if head is None:
            yield _OTHER_LINE if line.strip() else line
            continue
        content, begun = line[head.end() :], parts.pop(head[1], [])
        if head[2] == b"P":
            parts[head[1]] = [*begun, content.removesuffix(b"\n").removesuffix(b"\r")]
            yield PART_LINE
            continue
        document = b"".join((*begun, content)) if begun else content
        yield document if document.lstrip().startswith(b"{") else _OTHER_LINE
    yield from (b"".join(begun) + b"\n" for begun in parts.values())


EACH = "[]"
"""Step of a path into all items of an array."""


class FieldWrapper(Struct, frozen=True):
    """Documents at a path of a JSON value, as text or as objects: `records[].properties.log`.

    A step is the name of a field, `[]` for all items of an array, or `[1]` for its second item.
    """

    path: str

    def columns(self, document: Column = "VARCHAR") -> Columns:
        """Return the columns that lead to the documents: text, or objects with some fields read."""
        column = document  # of text an object becomes its JSON
        for step in reversed(self._steps):
            column = [column] if step.startswith("[") else {step: column}
        assert isinstance(column, Mapping)
        return column

    @property
    def documents(self) -> str:
        """SQL for the documents, over `columns()`: one document, or `unnest` of a list.

        An empty list gives a null, so that no line is lost.
        """
        first, *steps = self._steps
        list_sql = _documents(quoted(first), steps, 0)
        return f"unnest(if(len({list_sql}) > 0, {list_sql}, [null]))" if EACH in steps else list_sql

    def around(self, inner: FieldWrapper) -> FieldWrapper:
        """Return the wrapper of documents that another wrapper has in the objects of this one."""
        return FieldWrapper(f"{self.path}{'' if inner.path.startswith('[') else '.'}{inner.path}")

    def found(self, value: object) -> list[Any]:
        """Return the documents of one decoded value, unchanged."""
        return list(_leaves(value, self._steps))

    @property
    def _steps(self) -> list[str]:
        return self.path.replace("[", ".[").split(".")


def _documents(value: str, steps: list[str], depth: int) -> str:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step == EACH:
        item = f"item_{depth}"
        inner = _documents(item, rest, depth + 1)
        listed = f"list_transform({value}, lambda {item}: {inner})"
        return f"flatten({listed})" if EACH in rest else listed
    place = f"[{int(step[1:-1]) + 1}]" if step.startswith("[") else f".{quoted(step)}"
    return _documents(f"{value}{place}", rest, depth)


def _leaves(value: Any, steps: list[str]) -> Iterator[Any]:
    if not steps:
        if isinstance(value, (str, dict)):
            yield value
        return
    step, rest = steps[0], steps[1:]
    if step == EACH:
        for each in value if isinstance(value, list) else ():
            yield from _leaves(each, rest)
    elif step.startswith("["):
        place = int(step[1:-1])
        if isinstance(value, list) and place < len(value):
            yield from _leaves(value[place], rest)
    elif isinstance(value, dict) and step in value:
        yield from _leaves(value[step], rest)


class TextWrapper(Struct, frozen=True):
    """Lines of text that contain a document. `documents` returns a line of JSON for each line of a file."""

    documents: Callable[[Iterable[bytes]], Iterator[bytes]]


class Translation(Struct, frozen=True):
    """Records of another API about the same requests. `fields` are the columns of an event in SQL.

    They use `columns` and `terms`, which name expressions that are used more than once. `tells` returns whether a
    decoded value is such a record.
    """

    columns: Columns
    fields: Mapping[str, str]
    tells: Callable[[Any], bool]
    terms: Mapping[str, str] = field(default_factory=dict)


Wrapper: TypeAlias = FieldWrapper | TextWrapper | Translation
