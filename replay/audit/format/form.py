"""Form of a file: the arrangement of its documents, and its wrappers, the outermost first."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from replay.audit import queries
from replay.audit.format.table import LogFormat
from replay.audit.format.wrapper import (
    EVENT,
    PART,
    Columns,
    FieldWrapper,
    TextWrapper,
    Translation,
    read_columns,
    structure,
)

_TOLD = "told.*"
_EVENT_TOLD = "told.* replace (coalesce(told.kind, if(told is null, null, '')) as kind)"
"""Columns of an event. An object without any field of an event is not an event, rather than a damaged one."""


class Layout(StrEnum):
    """Arrangement of the documents in a file. The value is its name in `read_json`."""

    LINES = "newline_delimited"
    DOCUMENTS = "unstructured"
    ARRAY = "array"


class FileForm(Struct, frozen=True):
    """Form of a file: a sequence of wrappers. A text wrapper is first, a translation is last.

    `of_objects` are wrappers whose documents are objects, not text. These are read together with the object around
    them.
    """

    layout: Layout = Layout.LINES
    wrappers: tuple[LogFormat, ...] = ()
    of_objects: frozenset[str] = frozenset()

    @property
    def text(self) -> TextWrapper | None:
        """The text wrapper that is removed line by line before the rest is read, or None."""
        outer = self.wrappers[0].wrapper if self.wrappers else None
        return outer if isinstance(outer, TextWrapper) else None

    def wraps(self, value: object) -> bool:
        """Return whether a decoded line has documents in the outermost wrapper."""
        outer = self.wrappers[0].wrapper if self.wrappers else None
        return isinstance(outer, FieldWrapper) and bool(outer.found(value))

    def source(self) -> str:
        """Return the SQL of the rows of files in this form.

        The rows have the columns of an event, and `row_id`, `file_id` and `list_row`.
        """
        last = self.wrappers[-1].wrapper if self.wrappers else None
        translation = last if isinstance(last, Translation) else None
        columns_told = translation.columns if translation else EVENT
        steps, is_object = self._steps()
        columns = [*(step.columns() for step in steps), columns_told]
        if is_object:
            columns[-2] = steps[-1].columns(columns_told)
        rows = self._read(columns[0])
        for place, step in enumerate(steps):
            listed = _listed(rows, step)
            rows = (
                _columns_of(listed, columns_told)
                if is_object and step is steps[-1]
                else _decoded(listed, columns[place + 1])
            )
        return _translated(rows, translation) if translation else rows

    def _steps(self) -> tuple[list[FieldWrapper], bool]:
        """Return the JSON wrappers, with nested ones in objects combined, and whether the last documents are objects."""
        steps: list[FieldWrapper] = []
        is_object = False
        for each in self.wrappers:
            if isinstance(each.wrapper, FieldWrapper):
                steps.append(steps.pop().around(each.wrapper) if is_object else each.wrapper)
                is_object = each.name in self.of_objects
        return steps, is_object

    def _read(self, columns: Columns) -> str:
        """Return the SQL for the rows of lines, without lines that are only parts of a document."""
        if self.text is None:
            return queries.filled("ingest_lines", columns=read_columns(columns))
        lines = queries.filled("ingest_lines", columns=read_columns({**columns, PART: "BOOLEAN"}))
        return f"select * exclude ({PART}) from ({lines}) where {PART} is null"  # noqa: S608


def _listed(rows: str, step: FieldWrapper) -> str:
    """Return the SQL for one row per document of each row."""
    return f"select file_id, coalesce(list_row, row_id) as line_row, {step.documents} as document from ({rows})"  # noqa: S608


def _decoded(documents: str, columns: Columns) -> str:
    """Return the SQL for the columns of text documents.

    A document that does not begin like an object is another line of the log, not a damaged event.
    """
    text = "if(starts_with(ltrim(document), '{'), document, if(document is null, null, '{}'))"
    return _columns_of(documents, columns, f"try(json_transform({text}, '{structure(columns)}'))")


def _columns_of(documents: str, columns: Columns, document: str = "document") -> str:
    """Return the SQL for the columns of documents."""
    event_columns = _EVENT_TOLD if columns is EVENT else _TOLD
    return queries.filled("ingest_documents", document=document, told=event_columns, documents=documents)


def _translated(rows: str, translation: Translation) -> str:
    """Return the SQL for the events that records of another API describe."""
    terms = "".join(f", {term} as {name}" for name, term in translation.terms.items())
    fields = ", ".join(f'{translation.fields.get(name, "null")} as "{name}"' for name in EVENT)
    return f"select row_id, file_id, {fields}, list_row from (select *{terms} from ({rows}))"  # noqa: S608
