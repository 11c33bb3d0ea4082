"""`replay export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import AuditID, CollectionItem, PlannedSets, Redaction, with_groups
from replay.errors import ReplayError
from replay.pipeline.project.format import CaseForm, DecidingSet

EPILOG = (
    "Examples: replay export 4643ba19-8f5c-4d9d-921a-eb6cb22bdb75 sample_audit/shop --minimise --out cases/privileged.yaml\n\n"
    "replay export 4643ba19-8f5c-4d9d-921a-eb6cb22bdb75 sample_audit/shop --form kubectl"
)


@with_groups
def export(
    *,
    audit_id: AuditID,
    source: PlannedSets,
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
) -> None:
    """Write a request of a log as a test case, an AdmissionReview, a kat, kyverno or gator test, or a kubectl command.

    The written form is decided once more before it is saved. A form that cannot hold the decision is refused, with the reason.
    """
    from replay.case.form.table import BY_NAME
    from replay.cli.progress import progress_on
    from replay.pipeline.export import ExportOptions, export_request
    from replay.pipeline.whole_file import write_files

    is_directory = form in BY_NAME and BY_NAME[form].is_directory
    if is_directory and out is None:
        raise ReplayError(f"--form {form.value} makes several files: give --out with a directory")
    if minimise and form is CaseForm.KUBECTL:
        raise ReplayError("--minimise leaves objects that a server would not take: a kubectl command has the whole one")
    scenario = source.scenario()
    options = ExportOptions(
        audit_id=audit_id,
        item=item,
        side=side,
        form=form,
        minimise=minimise,
        redact=redact,
        beside=Path.cwd() if out is None else out.parent,
    )
    with progress_on() as progress:
        files = export_request(scenario, options, progress)
    if out is None:
        sys.stdout.writelines(files.values())
    elif is_directory:
        write_files(out, files, "the case")
    else:
        (text,) = files.values()
        write_files(out.parent, {out.name: text}, "the case")
