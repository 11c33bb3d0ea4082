"""A document as one self-contained HTML file: no outside resource, every text escaped, usable without a script."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from replay.report.charts import draw
from replay.report.document import Align, Chart, Column, Document, Listing, Table

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES = Path(__file__).parent / "templates"
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
    environment.globals["filter_from"] = FILTER_FROM
    return environment.get_template("document.html")


def _align(column: Column) -> str:
    return {Align.NUMBER: "number", Align.CODE: "code"}.get(column.align, "text")
