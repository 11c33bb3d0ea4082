"""`replay store info` and `replay store prune`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import AsJson

INFO_EPILOG = "Example: replay store info audit.store\n\nExit code: 0, or 2 where there is no store that can be read."
PRUNE_EPILOG = (
    "Example: replay store prune audit.store --keep 30d\n\n"
    "Example: replay store prune audit.store --before 2026-11-01T00:00:00Z\n\n"
    "Exit code: 0 what was asked is forgotten, if anything; 2 or more an error."
)

Directory = Annotated[Path, typer.Argument(help="The directory of the store.", metavar="DIR")]

store = typer.Typer(no_args_is_help=True, help="Look at a store of audit logs, or make it smaller.")


@store.command("info", epilog=INFO_EPILOG)
def info(directory: Directory, as_json: AsJson = False) -> None:
    """What is in this store: which files, how many requests, from when to when, how large?"""
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.audit.info import store_info  # noqa: PLC0415
    from replay.report.render.terminal import print_document  # noqa: PLC0415
    from replay.report.store_report import info_document, info_json  # noqa: PLC0415

    found = store_info(directory)
    if as_json:
        sys.stdout.write(json.dumps(info_json(found), indent=2, ensure_ascii=False) + "\n")
    else:
        print_document(info_document(found), Console(highlight=False))


@store.command("prune", epilog=PRUNE_EPILOG)
def prune(
    directory: Directory,
    before: Annotated[
        str, typer.Option(help="Forget ingests whose last request was before this time, such as 2026-11-01 (UTC).")
    ] = "",
    keep: Annotated[str, typer.Option(help="Keep this long before the last request of the store: 30d, 12h, 4w.")] = "",
    as_json: AsJson = False,
) -> None:
    """Forget the oldest ingests of a store; an ingest is forgotten whole, or not at all."""
    from replay.pipeline.store import prune as forget  # noqa: PLC0415 - `--help` must not pay for it
    from replay.report.render.document import plural  # noqa: PLC0415

    pruned = forget(directory, before, keep)
    if as_json:
        sys.stdout.write(json.dumps(pruned._asdict(), indent=2) + "\n")
    else:
        left = f"{plural(pruned.kept, 'ingest')} with {plural(pruned.requests, 'request')} left"
        sys.stdout.write(f"{plural(pruned.removed, 'ingest')} forgotten, {left}\n")
