"""A result in the terminal, and as files."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from replay.compare.result import RunResult
from replay.pipeline.whole_file import write_files
from replay.report.render.html import html
from replay.report.render.markdown import markdown
from replay.report.render.terminal import print_document
from replay.report.run.report import PAGE_ROWS, run_document


def print_result(result: RunResult, console: Console) -> None:
    """The report in the terminal."""
    print_document(run_document(result), console)


def write_report(result: RunResult, directory: Path) -> None:
    """`report.html` and `report.md` in a directory, which is made; raises ReplayError if it cannot be written."""
    document = run_document(result, rows=PAGE_ROWS, with_charts=True)
    write_files(directory, {"report.html": html(document), "report.md": markdown(document)}, "the report")
