"""`replay report`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    AsJson,
    AuthorizerWebhooks,
    Candidate,
    Cluster,
    Current,
    LogFormat,
    Logs,
    Store,
    TimeZone,
    Version,
    Workers,
    scenario_of,
)

EPILOG = (
    "Example: replay report --store audit.store audit.jsonl.zst --since 7d --current manifests/current "
    "--candidate manifests/next --cluster cluster.jsonl --out weekly"
)


class ReportFormat(StrEnum):
    """What is written instead of a report."""

    RBAC = "rbac"


def report(
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    since: Annotated[
        str | None, typer.Option(help="7d, 12h, 30m before the last event, or a time such as 2026-11-21T03:00Z.")
    ] = None,
    start: Annotated[str | None, typer.Option("--from", help="The same as --since.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="The end, likewise; the last event without it.")] = None,
    current: Current = None,
    candidate: Candidate = None,
    cluster: Cluster = None,
    previous: Annotated[
        Path | None,
        typer.Option(help="The report.json to compare with; by default the log itself, or what --out keeps."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write report.html, report.md and report.json into this directory.")
    ] = None,
    owner_label: Annotated[str, typer.Option(help="The label of a namespace that names its owner.")] = "team",
    brief: Annotated[
        bool, typer.Option("--brief", help="Markdown in short form, for a comment; printed if there is no --out.")
    ] = False,
    readiness: Annotated[
        bool,
        typer.Option("--readiness", help="Which Pod Security level each namespace is ready for, and which bounds."),
    ] = False,
    output: Annotated[
        ReportFormat | None, typer.Option("--format", help="`rbac`: a Role for what --user did, and no report.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="The user or service account of `--format rbac`.")] = None,
    webhook: AuthorizerWebhooks = None,
    as_json: AsJson = False,
    tz: TimeZone = None,
    workers: Workers = 0,
    kubernetes_version: Version = "1.37",
) -> None:
    """What did admission policy do this week, and which policies can be enforced?

    Tells what was denied, warned, audited and mutated by policy and day, with the trend; for each policy that only warns,
    audits or is planned what it would have denied, and whom to talk to; what is new, and what is gone.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for the rest

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.errors import ReplayError  # noqa: PLC0415
    from replay.pipeline.authorization.least_privilege import least_privilege  # noqa: PLC0415
    from replay.pipeline.log import opened  # noqa: PLC0415
    from replay.pipeline.options import Options  # noqa: PLC0415
    from replay.pipeline.period import time_zone  # noqa: PLC0415
    from replay.pipeline.weekly.output import print_weekly, weekly_markdown, write_weekly  # noqa: PLC0415
    from replay.pipeline.weekly.report import WeeklyQuestion, weekly  # noqa: PLC0415
    from replay.report.weekly.json import weekly_json  # noqa: PLC0415

    if since and start:
        raise ReplayError("give --since or --from, not both: they mean the same")
    zone = time_zone(tz)
    scenario = scenario_of(logs, store, current, candidate, cluster, kubernetes_version, log_format=log_format)
    if output is ReportFormat.RBAC:
        if not user:
            raise ReplayError("`--format rbac` needs the user that the Role is for", path="--user")
        with progress_on(Console(stderr=True)) as progress, opened(scenario, progress) as filled:
            sys.stdout.write(least_privilege(filled, user))
        return
    question = WeeklyQuestion(since or start, until, previous, out, owner_label, readiness)
    with progress_on(Console(stderr=True)) as progress:
        result = weekly(scenario, question, Options(workers=workers, webhooks=tuple(webhook or ())), progress, zone)
        if out is not None:
            write_weekly(result, out, zone, brief=brief)
    if as_json:
        sys.stdout.write(weekly_json(result))
    elif brief:
        sys.stdout.write(weekly_markdown(result, zone, brief=True))
    else:
        print_weekly(result, Console(highlight=False), zone)
