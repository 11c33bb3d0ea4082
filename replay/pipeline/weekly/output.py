"""A weekly report in each of its forms."""

from __future__ import annotations

from datetime import tzinfo
from pathlib import Path

from rich.console import Console

from replay.compare.weekly.figures import WeeklyResult
from replay.pipeline.whole_file import write_files
from replay.report.render.html import html
from replay.report.render.markdown import markdown
from replay.report.render.terminal import print_document
from replay.report.weekly.json import kept_name, weekly_json
from replay.report.weekly.report import PAGE_ROWS, weekly_document, weekly_screen


def print_weekly(result: WeeklyResult, console: Console, zone: tzinfo, *, full: bool = False) -> None:
    """Print the first screen of a report, or the full report."""
    print_document(weekly_document(result, zone=zone) if full else weekly_screen(result, zone), console)


def weekly_markdown(result: WeeklyResult, zone: tzinfo, *, brief: bool) -> str:
    """The report as Markdown; `brief` fits a comment of a pull request."""
    return markdown(weekly_document(result, zone=zone, rows=PAGE_ROWS, with_charts=not brief), brief=brief)


def write_weekly(result: WeeklyResult, directory: Path, zone: tzinfo, *, brief: bool) -> None:
    """`report.html`, `report.md` and `report.json` in a directory, which is made, and the JSON for the next report.

    Raises ReplayError if they cannot be written.
    """
    page = html(weekly_document(result, zone=zone, rows=PAGE_ROWS, with_charts=True))
    text, data = weekly_markdown(result, zone, brief=brief), weekly_json(result)
    names = {"report.html": page, "report.md": text, "report.json": data, kept_name(result.figures.period): data}
    write_files(directory, names, "the report")
