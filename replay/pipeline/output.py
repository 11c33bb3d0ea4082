"""Output of a result: in the terminal, in text formats, as files, and as an exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from rich.console import Console

from replay.compare.authorization import FINDINGS as AUTHORIZATION_FINDINGS
from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.result import RunResult, Service
from replay.errors import ReplayError
from replay.pipeline.project.format import DocumentFormat, FailOn, Format
from replay.pipeline.whole_file import whole_file, write_files
from replay.report.annotate import ANNOTATED, run_annotations
from replay.report.render.document import Document
from replay.report.render.html import html
from replay.report.render.markdown import comment, markdown
from replay.report.render.terminal import WIDTH, print_document, stdout_console
from replay.report.run.brief import run_comment
from replay.report.run.hits import hits_csv
from replay.report.run.json import summary_pieces
from replay.report.run.report import PAGE_ROWS, run_document
from replay.report.run.summary import run_summary
from replay.report.run.views import lockout

MOST_COMMENT = 60_000
"""Most characters of a comment. A pull request's comment holds 65,536."""
FEW_HITS = 50
"""Maximum rows of hits in Markdown. The page and the CSV have all."""


def print_result(result: RunResult, console: Console, *, full: bool = False) -> None:
    """Print the first screen of a run, or its full report."""
    print_document(run_document(result) if full else run_summary(result), console)


def run_pieces(result: RunResult, form: Format) -> Iterable[str]:
    """Yield a run in a text format. `markdown` is the short form for a comment."""
    if form is Format.JSON:
        return summary_pieces(result)
    if form is Format.MARKDOWN:
        return [comment(run_comment(result), MOST_COMMENT)]
    if form is Format.CSV:
        return [hits_csv(result)]
    if form is Format.HTML:
        return [html(run_document(result, rows=PAGE_ROWS, with_charts=True, hits=None, with_summary=True))]
    return [ANNOTATED[form.value](run_annotations(result))]


def show(document: Document, form: DocumentFormat, screen: Document | None = None) -> None:
    """Print a document as Markdown, page, or terminal output, there with its first screen if there is one."""
    if form is DocumentFormat.HTML:
        sys.stdout.write(html(document))
    elif form is DocumentFormat.MARKDOWN:
        sys.stdout.write(markdown(document))
    else:
        print_document(screen or document, stdout_console())


def terminal_text(show: Callable[[Console], None]) -> str:
    """Return terminal output as text, for a file."""
    text = io.StringIO()
    show(Console(file=text, width=WIDTH, highlight=False))
    return text.getvalue()


def write_report(result: RunResult, directory: Path) -> None:
    """Write `report.html`, `report.md` and `findings.csv` to a directory, which is created.

    Raise ReplayError if that fails.
    """
    page = run_document(result, rows=PAGE_ROWS, with_charts=True, hits=None, with_summary=True)
    text = run_document(result, rows=PAGE_ROWS, with_charts=True, hits=FEW_HITS, with_summary=True)
    files = {"report.html": html(page), "report.md": markdown(text), "findings.csv": hits_csv(result)}
    write_files(directory, files, "the report")


def write_page(document: Document, path: Path) -> None:
    """Write one self-contained HTML file. Raise ReplayError if it cannot be written."""
    with whole_file(path, "the page") as file:
        file.write(html(document).encode())


USUAL = (FailOn.DENIED, FailOn.MUTATED, FailOn.REMOVED)
"""Default, as in `kubectl diff`: anything newly denied, mutated, forbidden, allowed, or no longer served."""


def exit_code(result: RunResult, fail_on: Collection[FailOn] = USUAL) -> int:
    """Return 1 if a condition of `fail_on` holds, otherwise 0. Raise ReplayError for `none` with others."""
    if FailOn.NONE in fail_on and len(set(fail_on)) > 1:
        raise ReplayError("`none` stands alone: it fails on nothing", path="--fail-on")
    return int(any(_CONDITIONS[each](result) for each in fail_on))


def _denied(result: RunResult) -> bool:
    authorization = result.authorization
    changes = authorization is not None and any(authorization.outcomes[kind] for kind in AUTHORIZATION_FINDINGS)
    return changes or result.summary.outcomes[OutcomeKind.NEWLY_DENIED] > 0


def _locked_out(result: RunResult) -> bool:
    """Return whether a request of the cluster's own components is denied directly."""
    return any(key.outcome is OutcomeKind.NEWLY_DENIED and lockout(key) for key in result.summary.cells)


def _mutated(result: RunResult) -> bool:
    return any(result.summary.outcomes[kind] for kind in MUTATIONS)


def _undecided(result: RunResult) -> bool:
    return result.summary.outcomes[OutcomeKind.UNDETERMINED] > 0


def _removed(result: RunResult) -> bool:
    """Return whether a request succeeded in an API version that the candidate's server no longer serves."""
    return any(use.service is Service.REMOVED and use.succeeded for use in result.api_versions)


def _nothing(_result: RunResult) -> bool:
    return False


_CONDITIONS: Mapping[FailOn, Callable[[RunResult], bool]] = {
    FailOn.DENIED: _denied,
    FailOn.LOCKOUT: _locked_out,
    FailOn.MUTATED: _mutated,
    FailOn.UNDECIDED: _undecided,
    FailOn.REMOVED: _removed,
    FailOn.NONE: _nothing,
}
