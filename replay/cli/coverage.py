"""`replay coverage`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from replay.cli.options import (
    CandidateSet,
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
from replay.errors import ReplayError, reason_of
from replay.pipeline.project.format import DocumentFormat

if TYPE_CHECKING:
    from replay.compare.result import CoverageResult

EPILOG = (
    "Example: replay coverage audit.jsonl.zst --candidate manifests/next --policy audit-policy.yaml\n\n"
    "Exit code: 0 the log was read, 2 or more an error."
)


def coverage(
    logs: Logs = None,
    log_format: LogFormat = None,
    current: CurrentSet = None,
    candidate: CandidateSet = None,
    cluster: ClusterSnapshot = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    namespace: Namespaces = None,
    user: Users = None,
    since: PeriodStart = None,
    until: PeriodEnd = None,
    policy: Annotated[
        Path | None, typer.Option(help="Write the audit policy to this file; - prints only the policy.")
    ] = None,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Also record Secrets in the audit policy, if a policy reads them.")
    ] = False,
    full: FullReport = False,
    output: OutputFormat = DocumentFormat.TERMINAL,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    workspace: Workspaces = None,
    workers: Workers = 0,
    engine: FleetEngine = None,
    scheduler: Scheduler = None,
    kubernetes_version: MinorVersion = None,
) -> None:
    """How much of a log can be decided, and which audit policy would record the rest?

    Counts by resource, verb and level which requests the given manifests can decide. Without manifests, it assumes any possible policy.
    Lists what is missing by the number of undetermined verdicts, and writes a minimal audit policy.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.coverage import coverage as measure  # noqa: PLC0415
    from replay.pipeline.options import Focus, Options  # noqa: PLC0415
    from replay.pipeline.output import show  # noqa: PLC0415
    from replay.report.coverage_report import coverage_document, coverage_json, coverage_screen, policy_text  # noqa: PLC0415

    scenario = scenario_of(
        logs, store, current, candidate, cluster, kubernetes_version, log_format=log_format, cluster_name=cluster_name
    )
    focus = Focus((), tuple(namespace or ()), tuple(user or ()), since, until, workspaces=tuple(workspace or ()))
    options = Options(workers=workers, focus=focus)
    with fleet_of(engine, scheduler, workers) as fleet, progress_on(Console(stderr=True)) as progress:
        result = measure(scenario, replace(options, fleet=fleet), progress, secrets=secrets)
    if policy is not None and str(policy) != "-":
        _write_policy(result, policy)
    if policy is not None and str(policy) == "-":
        sys.stdout.write(policy_text(result))
    elif as_json or output is DocumentFormat.JSON:
        sys.stdout.write(json.dumps(coverage_json(result), indent=2, ensure_ascii=False) + "\n")
    else:
        show(coverage_document(result), output, None if full else coverage_screen(result))


def _write_policy(result: CoverageResult, path: Path) -> None:
    from replay.report.coverage_report import policy_text  # noqa: PLC0415

    try:
        path.write_text(policy_text(result), encoding="utf-8")
    except OSError as error:
        raise ReplayError(f"the policy cannot be written: {reason_of(error)}", path=str(path)) from error
