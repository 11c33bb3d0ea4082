"""`replay store info` and `replay store prune`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from replay.cli.command import Command
from replay.cli.options import JsonOutput, OutputFormat, RetentionLength, RetentionSize
from replay.pipeline.project.format import DocumentFormat

INFO_EPILOG = "Example: replay store info audit.store\n\nExit code: 0, or 2 where there is no store that can be read."
PRUNE_EPILOG = (
    "Example: replay store prune audit.store --keep 30d\n\n"
    "Example: replay store prune audit.store --before 2026-11-01T00:00:00Z\n\n"
    "Exit code: 0 what was asked is forgotten, if anything; 2 or more an error."
)

Directory = Annotated[
    str, typer.Argument(help="Store: a directory, or the URL of a bucket and prefix.", metavar="DIR|URL")
]

store = typer.Typer(no_args_is_help=True, help="Look at a store of audit logs, or make it smaller.")


@store.command("info", cls=Command, epilog=INFO_EPILOG)
def info(
    store_directory: Directory, output: OutputFormat = DocumentFormat.TERMINAL, as_json: JsonOutput = False
) -> None:
    """What is in this store: which files, how many requests, from when to when, how large?"""
    from replay.audit.info import store_info  # noqa: PLC0415
    from replay.pipeline.output import show  # noqa: PLC0415
    from replay.report.store_report import info_document, info_json  # noqa: PLC0415

    info_ = store_info(store_directory)
    if as_json or output is DocumentFormat.JSON:
        sys.stdout.write(json.dumps(info_json(info_), indent=2, ensure_ascii=False) + "\n")
    else:
        show(info_document(info_), output)


@store.command("prune", cls=Command, epilog=PRUNE_EPILOG)
def prune(
    store_directory: Directory,
    start: Annotated[
        str,
        typer.Option(
            "--before", help="Forget ingests whose last request was before this time, such as 2026-11-01 (UTC)."
        ),
    ] = "",
    keep: RetentionLength = "",
    keep_size: RetentionSize = "",
    as_json: JsonOutput = False,
) -> None:
    """Forget the oldest ingests of a store; an ingest is forgotten whole, or not at all."""
    from replay.errors import ReplayError  # noqa: PLC0415 - `--help` must not pay for it
    from replay.pipeline.store import Retention  # noqa: PLC0415
    from replay.pipeline.store import prune as forget  # noqa: PLC0415
    from replay.report.render.document import plural  # noqa: PLC0415

    if not (start or keep or keep_size):
        raise ReplayError("what to forget is not clear: give --before, --keep or --keep-size")
    pruned = forget(store_directory, Retention(start, keep, keep_size))
    if as_json:
        counts = {"removed": pruned.removed, "kept": pruned.left, "requests": pruned.requests}
        sys.stdout.write(json.dumps(counts, indent=2) + "\n")
    else:
        rest = f"{plural(pruned.left, 'ingest')} with {plural(pruned.requests, 'request')} left"
        sys.stdout.write(f"{plural(pruned.removed, 'ingest')} forgotten, {rest}\n")
