"""A document as one self-contained HTML file: without outside resources, escaped, and usable without a script."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from replay.report.render.charts import draw
from replay.report.render.document import Align, Chart, Column, Document, Fact, Listing, Table

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from markupsafe import Markup

_QUOTED = re.compile(r"`([^`]+)`")
_TEMPLATES = Path(__file__).parent / "templates"
_WHOLE = 34
"""Length up to which names that identify rows are not broken on a desktop."""
_FACT = 24
_LONG = 14
"""Length up to which words fit anywhere on a page."""
_BREAKS = re.compile(r"([/:@,](?=\S))|(?<=.)(?=\.(?!k8s\.|io\b)[A-Za-z])")
WIDE_FROM = 9
"""Number of columns above which a table has smaller type."""
FILTER_FROM = 8
"""Rows of the largest table from which a page gets a filter."""


def html(document: Document) -> str:
    """Return the whole page. Jinja escapes everything except the charts, which `draw` has escaped."""
    from markupsafe import Markup  # noqa: PLC0415 - only this format needs it

    def svg(chart: Chart) -> Markup:
        return Markup(draw(chart))  # noqa: S704 - drawn by our own code, labels escaped by matplotlib

    return _template().render(document=document, svg=svg)


@cache
def _template() -> Template:
    return environment().get_template("document.html")


def environment(*folders: Path) -> Environment:
    """Return Jinja with our filters, for the templates of pages and those in further folders."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - only this format needs it

    jinja = Environment(
        loader=FileSystemLoader([*folders, _TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.tests["table"] = lambda block: isinstance(block, Table)
    jinja.tests["chart"] = lambda block: isinstance(block, Chart)
    jinja.tests["listing"] = lambda block: isinstance(block, Listing)
    jinja.filters["align"] = _align
    jinja.filters["prose"] = _prose
    jinja.filters["breakable"] = _breakable
    jinja.filters["softly"] = _softly
    jinja.tests["code"] = lambda column: column.align in (Align.CODE, Align.ID)
    jinja.globals["wide_from"] = WIDE_FROM
    jinja.tests["filterable"] = _is_filterable
    jinja.tests["long"] = _is_long
    return jinja


def _is_filterable(document: Document) -> bool:
    tables = (block for section in document.sections for block in section.blocks if isinstance(block, Table))
    return any(len(table.rows) >= FILTER_FROM for table in tables)


def _is_long(fact: Fact) -> bool:
    """Return whether a fact needs more room than others, because its words would be broken."""
    return len(fact.value) > _FACT or max(map(len, _BREAKS.sub(r"\1 ", fact.note).split()), default=0) > _LONG


def _align(column: Column) -> str:
    """Return the CSS classes of a column's cells. A page may break an id, because it is copied whole."""
    name = Align.CODE if column.align is Align.ID else column.align
    return f"{name} optional" if column.optional else str(name)


def _prose(text: str) -> Markup:
    """Render one of our sentences, in which backticks mark code."""
    from markupsafe import Markup, escape  # noqa: PLC0415 - only this format needs it

    return Markup(_QUOTED.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped just before


def _softly(text: str) -> Markup:
    """Return text in which words that are too long for a phone may break after their punctuation, and only there."""
    from markupsafe import Markup, escape  # noqa: PLC0415 - only this format needs it

    def word(part: str) -> str:
        return (
            _BREAKS.sub(lambda match: f"{match[1] or ''}<wbr>", str(escape(part)))
            if len(part) > _LONG
            else str(escape(part))
        )

    return Markup(" ".join(map(word, text.split(" "))))  # noqa: S704 - each part is escaped


def _breakable(text: str, *, first: bool = False) -> Markup:
    """Return code that may break between names, and inside long names after their punctuation.

    In the first column, which identifies rows, only very long names may break.
    """
    from markupsafe import Markup, escape  # noqa: PLC0415 - only this format needs it

    def name(part: str) -> str:
        shown = str(escape(part))
        if len(part) > (_WHOLE if first else _LONG):
            shown = _BREAKS.sub(lambda match: f"{match[1] or ''}<wbr>", shown)
        return f"<span>{shown}</span>"

    return Markup(", ".join(map(name, text.split(", "))) if text else "")  # noqa: S704 - each part is escaped
