"""Options that several commands have: where the log and the manifests are, and how to print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Logs = Annotated[
    list[str] | None,
    typer.Argument(help="Audit logs: files, directories, globs, - for standard input; or one scenario directory."),
]
Store = Annotated[Path | None, typer.Option(help="A store: asked alone, or filled with the log files given.")]
Current = Annotated[
    Path | None, typer.Option(help="The manifests in force: a directory or an AdmissionConfiguration file.")
]
Candidate = Annotated[Path | None, typer.Option(help="The manifests that are planned.")]
Cluster = Annotated[Path | None, typer.Option(help="A snapshot of cluster objects (`replay snapshot`).")]
Version = Annotated[str, typer.Option("--kubernetes-version", help="The API server's minor version, 1.30 to 1.37.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TimeZone = Annotated[str | None, typer.Option("--tz", help="The time zone of printed times, such as Europe/Berlin.")]
Redact = Annotated[bool, typer.Option(help="Hide Secret data and tokens.")]
