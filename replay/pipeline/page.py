"""A document as a page of its own."""

from __future__ import annotations

from pathlib import Path

from replay.errors import ReplayError
from replay.report.render.document import Document
from replay.report.render.html import html


def write_page(document: Document, path: Path) -> None:
    """Write one self-contained HTML file; raises ReplayError if it cannot be written."""
    try:
        path.write_text(html(document), encoding="utf-8")
    except OSError as error:
        raise ReplayError(f"the page cannot be written: {error.strerror}", path=str(path)) from error
