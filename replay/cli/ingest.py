"""`replay ingest`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import AsJson, LogFormat

EPILOG = (
    "Example: replay ingest /var/log/kubernetes/audit --store audit.store\n\n"
    "Then: replay store info audit.store\n\n"
    "Exit code: 0 the logs are in the store, 2 or more an error; the store is then as it was."
)


def ingest(
    logs: Annotated[
        list[str], typer.Argument(help="Audit logs: files, directories, globs, - for standard input.", metavar="LOG...")
    ],
    *,
    log_format: LogFormat = None,
    store: Annotated[Path, typer.Option(help="The directory of the store; it is made if it is not there.")],
    rejects: Annotated[
        Path | None, typer.Option(help="Write every line that could not be used, with the reason.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep audit logs, so that the next question need not read them again.

    Files that the store knows by their content are skipped, whatever their name. What is rejected is counted, with the reason.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.scenario import Scenario  # noqa: PLC0415
    from replay.pipeline.store import fill  # noqa: PLC0415
    from replay.report.render.terminal import print_document  # noqa: PLC0415
    from replay.report.store_report import ingest_document, ingest_json  # noqa: PLC0415

    with progress_on(Console(stderr=True)) as progress:
        report, requests = fill(Scenario(tuple(logs), store=store, log_format=log_format or ""), rejects, progress)
    if as_json:
        sys.stdout.write(json.dumps(ingest_json(report, str(store), requests), indent=2, ensure_ascii=False) + "\n")
    else:
        print_document(ingest_document(report, str(store), requests), Console(highlight=False))
