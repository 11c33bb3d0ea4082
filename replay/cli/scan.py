"""`replay scan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    AddedPolicies,
    CandidateSet,
    ClusterName,
    CurrentSet,
    FullReport,
    LogFormat,
    Logs,
    MinorVersion,
    Namespaces,
    PlannedSets,
    Printed,
    Redaction,
    Store,
    with_groups,
)
from replay.pipeline.project.format import CaseOperation

EPILOG = (
    "Example: replay scan cluster.jsonl audit.jsonl.zst --candidate manifests/next\n\n"
    "Exit code: 0 no object would be denied, 1 one would be, 2 or more an error."
)


@with_groups
def scan(
    *,
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
    printed: Printed,
    redact: Redaction = True,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Which existing objects would the candidate deny?

    Checks every object of the snapshot: its next update without changes, or a new creation. The log tells who writes each object. For
    other objects the writer is --user, or an administrator.
    """
    from replay.cli.progress import progress_on
    from replay.kube.attributes import UserInfo
    from replay.pipeline.scan import ScanOptions
    from replay.pipeline.scan import scan as scan_objects
    from replay.report.scan_report import scan_document, scan_json, scan_screen

    is_scenario = not logs and (cluster / "candidate").exists()
    scenario = PlannedSets(
        [str(cluster)] if is_scenario else logs,
        log_format,
        store,
        cluster_name,
        current,
        candidate,
        add,
        None if is_scenario else cluster,
        kubernetes_version,
    ).scenario()
    named = UserInfo(user, "", tuple(group or ())) if user is not None else None
    with progress_on() as progress:
        options = ScanOptions(operation=operation, user=named, redact=redact, namespaces=tuple(namespace or ()))
        objects = scan_objects(scenario, options, progress)
    printed.show(objects, scan_json, scan_document, None if full else scan_screen)
    raise typer.Exit(int(bool(objects.breaches)))
