"""`replay run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    Add,
    AuthorizationMode,
    Candidate,
    Cluster,
    Current,
    LogFormat,
    Logs,
    Store,
    Version,
    Workers,
    scenario_of,
)

EPILOG = (
    "Example: replay run audit.jsonl.zst --current manifests/current --candidate manifests/next --cluster cluster.jsonl\n\n"
    "Exit code: 0 nothing newly denied or mutated, 1 something is, 2 or more an error."
)


def run(
    logs: Logs = None,
    log_format: LogFormat = None,
    current: Current = None,
    candidate: Candidate = None,
    add: Add = None,
    cluster: Cluster = None,
    store: Store = None,
    outcomes: Annotated[
        Path | None, typer.Option(help="Write one JSON line per request that admission saw, or the authorizers.")
    ] = None,
    save_cases: Annotated[
        Path | None, typer.Option(help="Write a case for each distinct finding into this directory (`replay test`).")
    ] = None,
    rejects: Annotated[
        Path | None, typer.Option(help="Write every line that could not be used, with the reason.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write report.html and report.md into this directory.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    redact: Annotated[bool, typer.Option(help="Hide Secret data and tokens in what is printed and written.")] = True,
    webhook: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=URL|NAME=recorded|NAME=FILE",
            help="Call this webhook at URL (dry run; nothing else is called), or use what it answered in the log; for that of "
            "an authorizer, recorded SubjectAccessReviews. Repeatable.",
        ),
    ] = None,
    authorization_mode: AuthorizationMode = None,
    workers: Workers = 0,
    kubernetes_version: Version = "1.37",
) -> None:
    """Which real requests would a change of admission policy newly deny or mutate?

    Reads audit logs, rebuilds what admission saw, decides every request with the current and the candidate manifests, and
    reports the differences. A directory that holds audit.*, current/, candidate/ and cluster.* needs no options.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline import output  # noqa: PLC0415
    from replay.pipeline.options import Options  # noqa: PLC0415
    from replay.pipeline.run import exit_code  # noqa: PLC0415
    from replay.pipeline.run import run as run_scenario  # noqa: PLC0415
    from replay.report.run.json import summary_json  # noqa: PLC0415

    scenario = scenario_of(logs, store, current, candidate, cluster, kubernetes_version, log_format=log_format, add=add)
    options = Options(
        outcomes=outcomes,
        rejects=rejects,
        save_cases=save_cases,
        redact=redact,
        workers=workers,
        webhooks=tuple(webhook or ()),
        authorization_mode=authorization_mode,
    )
    with progress_on(Console(stderr=True)) as progress:
        result = run_scenario(scenario, options, progress)
        if report is not None:
            output.write_report(result, report)
    if as_json:
        sys.stdout.write(summary_json(result))
    else:
        output.print_result(result, Console(highlight=False))
    raise typer.Exit(exit_code(result))
