"""`replay promote`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from msgspec.structs import replace

from replay.cli.options import (
    ClusterName,
    ClusterSnapshot,
    CurrentSet,
    FleetEngine,
    FullReport,
    JsonOutput,
    LogFormat,
    Logs,
    MinorVersion,
    Namespaces,
    OutputFormat,
    OwnerLabel,
    PeriodEnd,
    PeriodStart,
    Scheduler,
    Store,
    TimeZone,
    Users,
    Workers,
    fleet_of,
    scenario_of,
)
from replay.pipeline.project.format import DocumentFormat

EPILOG = (
    "Example: replay promote cand-team-label sample_audit/shop\n\n"
    "replay promote team-label audit.jsonl.zst --current manifests/current --cluster cluster.jsonl --format html > promote.html\n\n"
    "Exit code: 0 nothing that is admitted today would be denied, 1 something would or could, 2 or more an error."
)
NOT_READY = 1


def promote(
    policy: Annotated[
        str,
        typer.Argument(
            help="A policy of the baseline that audits or warns, native or of an engine: its name or a part of it."
        ),
    ],
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    current: CurrentSet = None,
    cluster: ClusterSnapshot = None,
    namespace: Namespaces = None,
    user: Users = None,
    since: PeriodStart = None,
    until: PeriodEnd = None,
    owner_label: OwnerLabel = "team",
    full: FullReport = False,
    output: OutputFormat = DocumentFormat.TERMINAL,
    as_json: JsonOutput = False,
    tz: TimeZone = None,
    workers: Workers = 0,
    engine: FleetEngine = None,
    scheduler: Scheduler = None,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Can this policy deny, instead of only auditing or warning?

    Answers for one policy: what it denied in audit, which requests it would deny directly, what would fail as a consequence, lockouts,
    the owners of the workloads, since when nothing new was hit, and how sure that is. Prints the change of the bindings.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.options import Focus, Options  # noqa: PLC0415
    from replay.pipeline.output import show  # noqa: PLC0415
    from replay.pipeline.period import time_zone  # noqa: PLC0415
    from replay.pipeline.promote import promote as promote_policy  # noqa: PLC0415
    from replay.report.promotion import is_ready, promotion_document, promotion_json, promotion_screen  # noqa: PLC0415

    zone = time_zone(tz)
    scenario = scenario_of(
        logs, store, current, None, cluster, kubernetes_version, log_format=log_format, cluster_name=cluster_name
    )
    focus = Focus(namespaces=tuple(namespace or ()), users=tuple(user or ()), since=since, until=until, zone=zone)
    options = Options(workers=workers, focus=focus, owner_label=owner_label)
    with fleet_of(engine, scheduler, workers) as fleet, progress_on(Console(stderr=True)) as progress:
        promoted = promote_policy(scenario, policy, replace(options, fleet=fleet), progress)
    if as_json or output is DocumentFormat.JSON:
        sys.stdout.write(json.dumps(promotion_json(promoted), indent=2, ensure_ascii=False) + "\n")
    else:
        show(promotion_document(promoted, zone), output, None if full else promotion_screen(promoted, zone))
    raise typer.Exit(0 if is_ready(promoted) else NOT_READY)
