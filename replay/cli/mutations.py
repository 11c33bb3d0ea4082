"""`replay mutations`."""

from __future__ import annotations

import sys

from msgspec.structs import replace

from replay.cli.options import (
    ClusterName,
    ClusterSnapshot,
    CurrentSet,
    FleetEngine,
    JsonOutput,
    LogFormat,
    Logs,
    MinorVersion,
    Namespaces,
    OutputFormat,
    PeriodEnd,
    PeriodStart,
    Redaction,
    Scheduler,
    Store,
    Users,
    Workers,
    fleet_of,
    scenario_of,
)
from replay.pipeline.project.format import DocumentFormat

EPILOG = (
    "Example: replay mutations audit.jsonl.zst --current manifests/current --cluster cluster.jsonl\n\n"
    "Exit code: 0 the log was read, 2 or more an error."
)


def mutations(
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
    output: OutputFormat = DocumentFormat.TERMINAL,
    as_json: JsonOutput = False,
    redact: Redaction = True,
    workers: Workers = 0,
    engine: FleetEngine = None,
    scheduler: Scheduler = None,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Who changed objects between the request and the storage?

    Compares what clients sent with what was stored. Attributes each change to a webhook (by its annotation), a mutating policy of the
    baseline (by replay), a built-in plugin, the server itself, or an unknown cause.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.forensic.mutations import mutations as attribute  # noqa: PLC0415
    from replay.pipeline.options import Focus, Options  # noqa: PLC0415
    from replay.pipeline.output import show  # noqa: PLC0415
    from replay.report.mutations_report import mutations_document, mutations_json  # noqa: PLC0415

    scenario = scenario_of(
        logs, store, current, None, cluster, kubernetes_version, log_format=log_format, cluster_name=cluster_name
    )
    options = Options(
        redact=redact, workers=workers, focus=Focus((), tuple(namespace or ()), tuple(user or ()), since, until)
    )
    with fleet_of(engine, scheduler, workers) as fleet, progress_on(Console(stderr=True)) as progress:
        result = attribute(scenario, replace(options, fleet=fleet), progress)
    if as_json or output is DocumentFormat.JSON:
        sys.stdout.write(mutations_json(result))
    else:
        show(mutations_document(result), output)
