"""`replay verify`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from msgspec.structs import replace

from replay.cli.options import (
    AuthorizationMode,
    AuthorizerWebhooks,
    ClusterName,
    ClusterSnapshot,
    CurrentSet,
    FleetEngine,
    FullReport,
    LogFormat,
    Logs,
    MinorVersion,
    Namespaces,
    OutputFormat,
    PeriodEnd,
    PeriodStart,
    Scheduler,
    Store,
    Users,
    Workers,
    Workspaces,
    fleet_of,
    scenario_of,
)
from replay.pipeline.project.format import DocumentFormat

EPILOG = (
    "Example: replay verify audit.jsonl.zst --current manifests/current --cluster cluster.jsonl\n\n"
    "Exit code: 0 the log agrees with the set, 1 it does not, 2 or more an error."
)
DISAGREES = 1


def verify(
    logs: Logs = None,
    log_format: LogFormat = None,
    current: CurrentSet = None,
    cluster: ClusterSnapshot = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    namespace: Namespaces = None,
    user: Users = None,
    since: PeriodStart = None,
    until: PeriodEnd = None,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Also evaluate one request in 25 with cel-python.")
    ] = False,
    full: FullReport = False,
    output: OutputFormat = DocumentFormat.TERMINAL,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    webhook: AuthorizerWebhooks = None,
    authorization_mode: AuthorizationMode = None,
    workspace: Workspaces = None,
    workers: Workers = 0,
    engine: FleetEngine = None,
    scheduler: Scheduler = None,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Does the baseline explain what the log shows?

    Compares denials, audited failures, audit annotations and mutations with the log. Names the likely cause of each difference: a policy
    that came into force later, or API servers with different manifests.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.options import Focus, Options  # noqa: PLC0415
    from replay.pipeline.output import show  # noqa: PLC0415
    from replay.pipeline.verify import verify as compare  # noqa: PLC0415
    from replay.report.verify_report import agrees, verify_document, verify_json, verify_screen  # noqa: PLC0415

    scenario = scenario_of(
        logs, store, current, None, cluster, kubernetes_version, log_format=log_format, cluster_name=cluster_name
    )
    options = Options(
        workers=workers,
        webhooks=tuple(webhook or ()),
        authorization_mode=authorization_mode,
        focus=Focus(
            namespaces=tuple(namespace or ()),
            users=tuple(user or ()),
            workspaces=tuple(workspace or ()),
            since=since,
            until=until,
        ),
    )
    with fleet_of(engine, scheduler, workers) as fleet, progress_on(Console(stderr=True)) as progress:
        result = compare(scenario, replace(options, fleet=fleet), progress, second_opinion=second_opinion)
    if as_json or output is DocumentFormat.JSON:
        sys.stdout.write(json.dumps(verify_json(result), indent=2, ensure_ascii=False) + "\n")
    else:
        show(verify_document(result), output, None if full else verify_screen(result))
    raise typer.Exit(0 if agrees(result) else DISAGREES)
