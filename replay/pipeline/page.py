"""A document as a web page."""

from __future__ import annotations

from pathlib import Path

from replay.pipeline.whole_file import whole_file
from replay.report.render.document import Document
from replay.report.render.html import html


def write_page(document: Document, path: Path) -> None:
    """Write one self-contained HTML file; raises ReplayError if it cannot be written."""
    with whole_file(path, "the page") as file:
        file.write(html(document).encode())
