"""`replay store info` and `replay store prune`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from replay.cli.command import Command
from replay.cli.options import JsonOutput, Printed, RetentionLength, RetentionSize, with_groups
from replay.json import json_document

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
@with_groups
def info(*, store_directory: Directory, printed: Printed) -> None:
    """What is in this store: which files, how many requests, from when to when, how large?"""
    from replay.audit.store import store_info
    from replay.report.store_report import info_document, info_json

    printed.show(store_info(store_directory), info_json, info_document, indent=2)


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
    from replay.errors import ReplayError
    from replay.pipeline.store import Retention
    from replay.pipeline.store import prune as forget
    from replay.report.render.document import plural

    if not (start or keep or keep_size):
        raise ReplayError("what to forget is not clear: give --before, --keep or --keep-size")
    pruned = forget(store_directory, Retention(start, keep, keep_size))
    if as_json:
        counts = {"removed": pruned.removed, "kept": pruned.left, "requests": pruned.requests}
        sys.stdout.write(json_document(counts, indent=2))
    else:
        rest = f"{plural(pruned.left, 'ingest')} with {plural(pruned.requests, 'request')} left"
        sys.stdout.write(f"{plural(pruned.removed, 'ingest')} forgotten, {rest}\n")
