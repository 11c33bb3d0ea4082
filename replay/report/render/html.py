"""A document as one self-contained HTML file: no outside resource, every text escaped, usable without a script."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from replay.report.render.charts import draw
from replay.report.render.document import Align, Chart, Column, Document, Listing, Table

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

_QUOTED = re.compile(r"`([^`]+)`")
_TEMPLATES = Path(__file__).parent / "templates"
_BREAKS = re.compile(r"([/:@,](?=\S))|(?<=.)(?=\.(?!k8s\.|io\b)[A-Za-z])")
WIDE_FROM = 6
"""Tables of more columns than this leave out the optional ones on a tablet already."""
FILTER_FROM = 8
"""Tables from this many rows on get a filter field; below it, it would only be in the way."""


def html(document: Document) -> str:
    """The whole page; Jinja escapes everything but the charts, which `draw` has escaped."""
    from markupsafe import Markup  # noqa: PLC0415 - only this format needs it

    def svg(chart: Chart) -> Markup:
        return Markup(draw(chart))  # noqa: S704 - drawn by our own code, labels escaped by matplotlib

    return _template().render(document=document, svg=svg)


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - only this format needs it

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["table"] = lambda block: isinstance(block, Table)
    environment.tests["chart"] = lambda block: isinstance(block, Chart)
    environment.tests["listing"] = lambda block: isinstance(block, Listing)
    environment.filters["align"] = _align
    environment.filters["prose"] = _prose
    environment.filters["breakable"] = _breakable
    environment.tests["code"] = lambda column: column.align in (Align.CODE, Align.ID)
    environment.globals["filter_from"] = FILTER_FROM
    environment.globals["wide_from"] = WIDE_FROM
    return environment.get_template("document.html")


def _align(column: Column) -> str:
    """The classes of a column's cells; a page may break an id, which it still copies whole."""
    name = Align.CODE if column.align is Align.ID else column.align
    return f"{name} optional" if column.optional else str(name)


def _prose(text: str) -> Markup:
    """A sentence of ours, in which backticks mark code."""
    from markupsafe import Markup, escape  # noqa: PLC0415 - only this format needs it

    return Markup(_QUOTED.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped just before


def _breakable(text: str) -> Markup:
    """Code may be broken after the marks that names consist of, so that it need not be broken anywhere else."""
    from markupsafe import Markup, escape  # noqa: PLC0415 - only this format needs it

    return Markup(_BREAKS.sub(lambda found: f"{found[1] or ''}<wbr>", str(escape(text))))  # noqa: S704 - escaped just before
