"""`replay test`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.options import MinorVersion, MinorVersions
from replay.errors import ReplayError
from replay.pipeline.version import versions_of

if TYPE_CHECKING:
    from replay.case.result import CaseReport

EPILOG = (
    "Examples: replay test cases/ --policies manifests/next\n\n"
    "replay test . --coverage --format junit --out report.xml\n\n"
    "Exit code: 0 every case passes, 1 a case fails, 2 a case cannot run."
)


class CaseResultFormat(StrEnum):
    """Output format of results."""

    TERMINAL = "terminal"
    JUNIT = "junit"
    TAP = "tap"
    GITHUB = "github"
    JSON = "json"


def test(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Files and directories with test cases of replay, kat, kyverno, gator or kubescape.",
            metavar="PATH",
        ),
    ],
    policies: Annotated[
        list[Path] | None, typer.Option(help="Policies for cases that name none: a file or a directory. Repeatable.")
    ] = None,
    name: Annotated[str, typer.Option("--name", "-k", help="Only cases whose name contains this text.")] = "",
    coverage: Annotated[
        bool, typer.Option("--coverage", help="List policies, validations and branches that no case reaches.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Run again when a file changes. Stop with Ctrl-C.")] = False,
    output: Annotated[CaseResultFormat, typer.Option("--format", help="Output format.")] = CaseResultFormat.TERMINAL,
    out: Annotated[Path | None, typer.Option(help="Print to this file instead.")] = None,
    kubernetes_version: MinorVersion = None,
    versions: MinorVersions = None,
) -> None:
    """Do the policies decide the test cases as expected?

    Needs no log. A case holds a request, the cluster around it and the expected decision (docs/cases.md).
    """
    from replay.pipeline.cases import CaseOptions, run_tests
    from replay.pipeline.project.watch import watch_cases
    from replay.report.case_results import FORMATS

    minors = versions_of(versions, kubernetes_version)
    policy_paths = tuple(policies or ())
    options = CaseOptions(paths=tuple(paths), policies=policy_paths, name=name, coverage=coverage, versions=minors)

    def write(lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if out is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            out.write_text(text, "utf-8")

    def show(report: CaseReport | ReplayError) -> None:
        write([f"replay: {report}"] if isinstance(report, ReplayError) else list(FORMATS[output](report)))

    if watch:
        watch_cases(options, show)
    report = run_tests(options)
    write(list(FORMATS[output](report)))
    raise typer.Exit(report.exit_code)
