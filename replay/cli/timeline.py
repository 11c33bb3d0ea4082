"""`replay timeline`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from replay.cli.options import (
    ClusterName,
    JsonOutput,
    LogFormat,
    Logs,
    OutputFormat,
    PeriodEnd,
    PeriodStart,
    Redaction,
    Store,
    TimeZone,
    Users,
    scenario_of,
)
from replay.errors import ReplayError
from replay.pipeline.project.format import DocumentFormat

EPILOG = "Example: replay timeline Deployment team-a/app-871 sample_audit/shop"


def timeline(
    kind: Annotated[str, typer.Argument(help="Kind or resource, with its group if needed: Deployment, jobs.batch.")],
    name: Annotated[str, typer.Argument(help="NAMESPACE/NAME, or NAME for cluster-scoped objects.")],
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the object, if NAME does not include it.")
    ] = "",
    user: Users = None,
    since: PeriodStart = None,
    until: PeriodEnd = None,
    output: OutputFormat = DocumentFormat.TERMINAL,
    as_json: JsonOutput = False,
    tz: TimeZone = None,
    redact: Redaction = True,
) -> None:
    """What happened to an object, who did it, and what did admission decide?

    Lists every request that could change the object, with the changed fields, the users and the decisions.
    """
    import json  # noqa: PLC0415 - `--help` must not pay for the rest

    from rich.console import Console  # noqa: PLC0415

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.forensic.timeline import object_timeline  # noqa: PLC0415
    from replay.pipeline.options import Focus  # noqa: PLC0415
    from replay.pipeline.output import show  # noqa: PLC0415
    from replay.pipeline.period import time_zone  # noqa: PLC0415
    from replay.report.timeline_report import timeline_document, timeline_json  # noqa: PLC0415

    zone, scenario = time_zone(tz), scenario_of(logs, store, log_format=log_format, cluster_name=cluster_name)
    focus = Focus(users=tuple(user or ()), since=since, until=until, zone=zone)
    with progress_on(Console(stderr=True)) as progress:
        history = object_timeline(scenario, kind, _whole(name, namespace), progress, focus, redact=redact)
    if as_json or output is DocumentFormat.JSON:
        sys.stdout.write(json.dumps(timeline_json(history, zone), indent=1, ensure_ascii=False) + "\n")
    else:
        show(timeline_document(history, zone), output)


def _whole(name: str, namespace: str) -> str:
    """Return the name with its namespace. Raises ReplayError if two namespaces are given and differ."""
    own, slash, _ = name.rpartition("/")
    if slash and namespace not in ("", own):
        raise ReplayError(f"`{name}` is not in the namespace `{namespace}`: name one of them")
    return name if slash or not namespace else f"{namespace}/{name}"
