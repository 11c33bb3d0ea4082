"""Recognition of a file's form by its beginning. Its name does not matter."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from replay.audit import queries
from replay.audit.format.admission_review import is_review, json_value
from replay.audit.format.flattened import flat_prefix
from replay.audit.format.form import FileForm, Layout
from replay.audit.format.table import CONTAINER, FLATTENED, FORMATS, PLAIN, PREFIXED, REVIEWS, LogFormat
from replay.audit.format.wrapper import CONTAINER_LINE, PART_LINE, FieldWrapper, TextWrapper, Translation
from replay.audit.salvage import BLANK, DamagedError, Documents, text_lines
from replay.audit.source import LogFile, open_log
from replay.on_demand import duckdb

HEAD = 1 << 18
"""Maximum number of bytes of a file that are examined."""
_LOOKED_AT = 32
"""Maximum number of lines, documents, or parts of one that are examined."""
_DEPTH = 3
"""Maximum depth of nested wrappers."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*("|\Z|\\\Z)|[{}\[\],]', re.DOTALL)
_LONGEST_ESCAPE = 6
_AUDIT = "audit.k8s.io/"


def form_of(head: bytes, formats: Sequence[LogFormat] = ()) -> FileForm:
    """Return the form of a file with this beginning. `formats` limits the outermost wrapper, if the user named a format.

    An unrecognised file has the form of a plain log, or of the first named format.
    """
    text = head.decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return FileForm()
    layout, values = _json_values(text, lines)
    if layout is Layout.LINES and any(flat_prefix(value) is not None for value in values):
        return FileForm(layout, (FLATTENED,))
    if layout is not None and any(map(is_review, values)):
        return FileForm(Layout.LINES, (REVIEWS,))
    if layout is not None and (wrappers := _wrappers(values, formats or FORMATS)) is not None:
        return _form(layout, wrappers) if wrappers else FileForm()
    if layout is None and (form := _text_form(lines, formats)) is not None:
        return form
    return _named_form(layout, formats)


def _line_form(line: bytes) -> FileForm | None:
    """Return the form of a line with events, or None for a line without events in a known form."""
    if b"audit" not in line and b"Audit" not in line:  # every form names what it holds; other lines need not be decoded
        return None
    text = line.decode("utf-8", "replace")
    value = json_value(text)
    if not isinstance(value, dict):
        form = _text_form([text], ())
        return None if form is None or CONTAINER in form.wrappers else form
    if flat_prefix(value) is not None:
        return FileForm(Layout.LINES, (FLATTENED,))
    wrappers = _wrappers([value], FORMATS, 1)  # from depth 1 on, a wrapper needs an event within it
    return None if wrappers is None else _form(Layout.LINES, wrappers) if wrappers else FileForm()


def _named_form(layout: Layout | None, formats: Sequence[LogFormat]) -> FileForm:
    """Return the form of the first format that the user named."""
    forced = next((each for each in formats if each.wrapper is not None), None)
    if forced is None or PLAIN in formats:
        return FileForm()
    is_text = isinstance(forced.wrapper, TextWrapper)
    return FileForm(Layout.LINES if is_text or layout is None else layout, (forced,))


def _json_values(text: str, lines: Sequence[str]) -> tuple[Layout | None, list[Any]]:
    """Return the layout and the first values of JSON. The layout is None if the file does not begin as JSON."""
    start = text.lstrip()
    if start.startswith("["):
        first = beginning(start)
        return (Layout.ARRAY, first[:_LOOKED_AT]) if isinstance(first, list) and first else (None, [])
    values = [value for line in lines[:_LOOKED_AT] if isinstance(value := json_value(line), dict) and value]
    if values and lines[0].strip() != "{":
        return Layout.LINES, values
    first = beginning(start) if start.startswith("{") else None
    if not isinstance(first, dict) or not first:
        return None, []
    return (Layout.LINES if len(lines) == 1 and _decoded_prefix(start) else Layout.DOCUMENTS), [first]


def _decoded_prefix(text: str) -> bool:
    """Return whether a text of one line is one document that the head cuts off, and not several documents."""
    return _end(text) is None


def _text_form(lines: Sequence[str], formats: Sequence[LogFormat]) -> FileForm | None:
    """Return the form of lines that are not plain JSON, or None."""
    looked_at = [line.encode() for line in lines[:_LOOKED_AT]]
    is_container = any(map(CONTAINER_LINE.match, looked_at))
    outer = CONTAINER if is_container else PREFIXED
    if formats and outer not in formats:
        return None
    assert isinstance(outer.wrapper, TextWrapper)
    texts = [line.decode() for line in outer.wrapper.documents(looked_at)]
    values = [value for text in texts if isinstance(value := beginning(text), dict)]
    inner = _wrappers(values, FORMATS)
    if inner is None:
        return FileForm(Layout.LINES, (outer,)) if is_container or outer in formats else None
    return _form(Layout.LINES, ((outer, False), *inner))


_Found = tuple[tuple[LogFormat, bool], ...]
"""Wrappers, each with whether its documents are objects."""


def _form(layout: Layout, wrappers: _Found) -> FileForm:
    of_objects = frozenset(each.name for each, is_object in wrappers if is_object)
    return FileForm(layout, tuple(each for each, _ in wrappers), of_objects)


def _wrappers(values: Sequence[Any], formats: Iterable[LogFormat], depth: int = 0) -> _Found | None:
    """Return the wrappers of decoded values. They are empty for events, and None if no format fits."""
    if any(map(_is_event, values)):
        return ()
    if depth == _DEPTH:
        return None
    weak: _Found | None = None
    for each in formats:
        if isinstance(each.wrapper, Translation) and any(map(each.wrapper.tells, values)):
            return ((each, False),)
        if not isinstance(each.wrapper, FieldWrapper):
            continue
        inner_values = [inner for value in values for inner in each.wrapper.found(value)][:_LOOKED_AT]
        if not inner_values:
            continue
        decoded = [beginning(inner) if isinstance(inner, str) else inner for inner in inner_values]
        inner_wrappers = _wrappers(decoded, FORMATS, depth + 1)
        if inner_wrappers is not None:
            return ((each, all(isinstance(inner, dict) for inner in inner_values)), *inner_wrappers)
        weak = weak or ((each, False),)
    return weak if depth == 0 else None


def _is_event(value: Any) -> bool:
    """Return whether a value is an event or a list of events."""
    return (
        isinstance(value, dict)
        and value.get("kind") in ("Event", "EventList")
        and str(value.get("apiVersion")).startswith(_AUDIT)
    )


def _end(text: str) -> int | None:
    """Return the end of the first value of a text, or None if the text ends before it."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0].startswith('"'):
            continue
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return None


def beginning(text: str) -> Any:
    """Return the first value of a text. Of a truncated value, return its whole parts and the start of its last string.

    Return None if there is no value.
    """
    if (end := _end(text)) is not None:
        return json_value(text[:end])
    closers: list[str] = []
    cut = ""
    for token in _TOKEN.finditer(text):
        if token[0].startswith('"'):
            if token[1] != '"':
                value = json_value(_closed_string(text) + "".join(reversed(closers)))
                return value if value is not None else json_value(cut)
            continue
        if token[0] in "{[":
            closers.append("}" if token[0] == "{" else "]")
        elif token[0] in "}]" and (not closers or closers.pop() != token[0]):
            return None
        cut = text[: token.start() if token[0] == "," else token.end()] + "".join(reversed(closers))
    return json_value(cut)


def _closed_string(text: str) -> str:
    """Return a text that ends within a string, with an end added. A possible half of an escape is left out."""
    return text[:-_LONGEST_ESCAPE].rstrip("\\") + '"'


# Reader of a file's decompressed beginning.

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


# Files with lines of several forms. A collector may write lines of several sources, each in its own form.


def forms_of_rejected_lines(
    file: LogFile, form: FileForm, rejected: Collection[int]
) -> Sequence[tuple[FileForm, frozenset[int]]]:
    """Return the forms of rejected lines of a file, with the places of these lines.

    Places count from 0 without blank lines. `form` is the form in which the lines were rejected.
    """
    forms: dict[tuple[str, ...], tuple[FileForm, set[int]]] = {}
    with open_log(file) as stream, suppress(DamagedError):
        for place, line in enumerate(line for line in text_lines(stream) if line.strip(BLANK)):
            found = _line_form(line) if place in rejected else None
            if found is not None and found != form:
                names = *(each.name for each in found.wrappers), *sorted(found.of_objects)
                forms.setdefault(names, (found, set()))[1].add(place)
    return [(found, frozenset(places)) for found, places in forms.values()]


def form_at(form: FileForm, places: frozenset[int]) -> FileForm:
    """Return a form that reads only the lines at some places."""
    inner = form.text.documents if form.text else None
    wrappers = form.wrappers[1:] if form.text else form.wrappers
    picked = LogFormat("mixed", (), TextWrapper(_picked(places, inner)))
    return FileForm(Layout.LINES, (picked, *wrappers), form.of_objects)


def _picked(places: frozenset[int], inner: Documents | None) -> Documents:
    def documents(lines: Iterable[bytes]) -> Iterator[bytes]:
        place = -1
        for line in lines:
            if not line.strip(BLANK):
                yield line
                continue
            place += 1
            if place not in places:
                yield PART_LINE
            elif inner is None:
                yield line
            else:
                yield from inner([line])

    return documents
