"""Files with lines of several forms. A collector may write lines of several sources, each in its own form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from replay.audit.file.salvage import BLANK, DamagedError, Documents, text_lines
from replay.audit.format.form import FileForm, Layout
from replay.audit.format.recognise import line_form
from replay.audit.format.table import LogFormat
from replay.audit.format.text import PART_LINE
from replay.audit.format.wrapper import TextWrapper
from replay.audit.source import LogFile, open_log


def other_forms(file: LogFile, form: FileForm, rejected: Collection[int]) -> Sequence[tuple[FileForm, frozenset[int]]]:
    """Return the forms of rejected lines of a file, with the places of these lines.

    Places count from 0 without blank lines. `form` is the form in which the lines were rejected.
    """
    forms: dict[tuple[str, ...], tuple[FileForm, set[int]]] = {}
    with open_log(file) as stream, suppress(DamagedError):
        for place, line in enumerate(line for line in text_lines(stream) if line.strip(BLANK)):
            found = line_form(line) if place in rejected else None
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
