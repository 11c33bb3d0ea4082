"""`replay verify`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

EPILOG = (
    "Example: replay verify audit.jsonl.zst --current manifests/current --cluster cluster.jsonl\n\n"
    "Exit code: 0 nothing in the log contradicts the set, 1 something does, 2 or more an error."
)
DISAGREES = 1


def verify(
    logs: Annotated[list[str], typer.Argument(help="Audit logs, or one scenario directory.")],
    current: Annotated[Path | None, typer.Option(help="The manifests that were in force.")] = None,
    cluster: Annotated[Path | None, typer.Option(help="A snapshot of cluster objects (`replay snapshot`).")] = None,
    store: Annotated[Path | None, typer.Option(help="Keep the ingested log here for the next run.")] = None,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Ask cel-python too, about one request in 25.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 means one for each core.")] = 0,
    kubernetes_version: Annotated[
        str, typer.Option("--kubernetes-version", help="The API server's minor version, 1.30 to 1.37.")
    ] = "1.37",
) -> None:
    """Does the set that is said to have been in force explain what the log says happened?

    Replays it and compares denials, audited failures, audit annotations and mutations; names the likely cause of each
    difference, and finds when a policy came into force or that API servers had different manifests.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.run import Options  # noqa: PLC0415
    from replay.pipeline.verify import verify as compare  # noqa: PLC0415
    from replay.pipeline.verify import verify_input  # noqa: PLC0415
    from replay.report.render.terminal import print_document  # noqa: PLC0415
    from replay.report.verify_report import agrees, verify_document, verify_json  # noqa: PLC0415

    asked = verify_input(logs, current, cluster, second_opinion=second_opinion)
    options = Options(store, workers=workers, version=kubernetes_version)
    with progress_on(Console(stderr=True)) as progress:
        result = compare(asked, options, progress)
    if as_json:
        sys.stdout.write(json.dumps(verify_json(result), indent=2, ensure_ascii=False) + "\n")
    else:
        print_document(verify_document(result), Console(highlight=False))
    raise typer.Exit(0 if agrees(result) else DISAGREES)
