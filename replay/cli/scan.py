"""`replay scan`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    AddedPolicies,
    CandidateSet,
    ClusterName,
    CurrentSet,
    FullReport,
    JsonOutput,
    LogFormat,
    Logs,
    MinorVersion,
    Namespaces,
    OutputFormat,
    Redaction,
    Store,
    scenario_of,
)
from replay.pipeline.project.format import CaseOperation, DocumentFormat

EPILOG = (
    "Example: replay scan cluster.jsonl audit.jsonl.zst --candidate manifests/next\n\n"
    "Exit code: 0 no object would be denied, 1 one would be, 2 or more an error."
)


def scan(
    cluster: Annotated[
        Path,
        typer.Argument(
            help="Snapshot of cluster objects, with the objects to check. Or one scenario directory.", metavar="CLUSTER"
        ),
    ],
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    current: CurrentSet = None,
    candidate: CandidateSet = None,
    add: AddedPolicies = None,
    namespace: Namespaces = None,
    operation: Annotated[
        CaseOperation,
        typer.Option(
            "--as",
            help="Check the next update without changes, a new creation, or what Kyverno's background scan reports.",
        ),
    ] = CaseOperation.UPDATE,
    user: Annotated[str | None, typer.Option(help="User for objects whose writer is not in the log.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Group of that user. Repeatable.")] = None,
    full: FullReport = False,
    output: OutputFormat = DocumentFormat.TERMINAL,
    as_json: JsonOutput = False,
    redact: Redaction = True,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Which existing objects would the candidate deny?

    Checks every object of the snapshot: its next update without changes, or a new creation. The log tells who writes each object. For
    other objects the writer is --user, or an administrator.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.kube.attributes import UserInfo  # noqa: PLC0415
    from replay.pipeline.output import show  # noqa: PLC0415
    from replay.pipeline.scan import ScanOptions  # noqa: PLC0415
    from replay.pipeline.scan import scan as scan_objects  # noqa: PLC0415
    from replay.report.scan_report import scan_document, scan_json, scan_screen  # noqa: PLC0415

    is_scenario = not logs and (cluster / "candidate").exists()
    scenario = scenario_of(
        [str(cluster)] if is_scenario else logs,
        store,
        current,
        candidate,
        None if is_scenario else cluster,
        kubernetes_version,
        log_format=log_format,
        cluster_name=cluster_name,
        add=add,
    )
    named = UserInfo(user, "", tuple(group or ())) if user is not None else None
    with progress_on(Console(stderr=True)) as progress:
        options = ScanOptions(operation=operation, user=named, redact=redact, namespaces=tuple(namespace or ()))
        objects = scan_objects(scenario, options, progress)
    if as_json or output is DocumentFormat.JSON:
        sys.stdout.write(scan_json(objects))
    else:
        show(scan_document(objects), output, None if full else scan_screen(objects))
    raise typer.Exit(int(bool(objects.breaches)))
