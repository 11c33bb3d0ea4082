"""`replay export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    AddedPolicies,
    AuditID,
    CandidateSet,
    ClusterName,
    ClusterSnapshot,
    CollectionItem,
    CurrentSet,
    LogFormat,
    Logs,
    MinorVersion,
    Redaction,
    Store,
    scenario_of,
)
from replay.errors import ReplayError
from replay.pipeline.project.format import CaseForm, DecidingSet

EPILOG = (
    "Examples: replay export 4643ba19-8f5c-4d9d-921a-eb6cb22bdb75 sample_audit/shop --minimise --out cases/privileged.yaml\n\n"
    "replay export 4643ba19-8f5c-4d9d-921a-eb6cb22bdb75 sample_audit/shop --form kubectl"
)


def export(
    audit_id: AuditID,
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    current: CurrentSet = None,
    candidate: CandidateSet = None,
    add: AddedPolicies = None,
    cluster: ClusterSnapshot = None,
    item: CollectionItem = 0,
    form: Annotated[CaseForm, typer.Option("--form", help="Form of the output.")] = CaseForm.CASE,
    side: Annotated[
        DecidingSet | None,
        typer.Option("--side", help="Set that decides the request. Default: the candidate if there is one."),
    ] = None,
    minimise: Annotated[
        bool, typer.Option("--minimise", help="Remove every field that does not affect the decision.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file, or to this directory for --form kat, kyverno and gator.")
    ] = None,
    redact: Redaction = True,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Write a request of a log as a test case, an AdmissionReview, a kat, kyverno or gator test, or a kubectl command.

    The written form is decided once more before it is saved. A form that cannot hold the decision is refused, with the reason.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.export import ExportOptions, export_request  # noqa: PLC0415
    from replay.pipeline.whole_file import write_files  # noqa: PLC0415

    is_directory = form in (CaseForm.KAT, CaseForm.KYVERNO, CaseForm.GATOR)
    if is_directory and out is None:
        raise ReplayError(f"--form {form.value} makes several files: give --out with a directory")
    if minimise and form is CaseForm.KUBECTL:
        raise ReplayError("--minimise leaves objects that a server would not take: a kubectl command has the whole one")
    scenario = scenario_of(
        logs,
        store,
        current,
        candidate,
        cluster,
        kubernetes_version,
        log_format=log_format,
        cluster_name=cluster_name,
        add=add,
    )
    options = ExportOptions(
        audit_id=audit_id,
        item=item,
        side=side,
        form=form,
        minimise=minimise,
        redact=redact,
        beside=Path.cwd() if out is None else out.parent,
    )
    with progress_on(Console(stderr=True)) as progress:
        files = export_request(scenario, options, progress)
    if out is None:
        sys.stdout.writelines(files.values())
    elif is_directory:
        write_files(out, files, "the case")
    else:
        (text,) = files.values()
        write_files(out.parent, {out.name: text}, "the case")
