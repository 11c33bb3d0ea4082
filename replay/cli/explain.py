"""`replay explain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    AddedPolicies,
    AppliedBundles,
    AuditID,
    AuthorizationMode,
    AuthorizerWebhooks,
    CandidateSet,
    CandidateVersion,
    ClusterName,
    ClusterSnapshot,
    CollectionItem,
    CurrentDownWebhooks,
    CurrentSet,
    CurrentVersion,
    DownWebhooks,
    JsonOutput,
    LogFormat,
    Logs,
    MinorVersion,
    OutputFormat,
    OwnerLabel,
    PruneSelector,
    Redaction,
    Store,
    TimeZone,
    Workspaces,
    scenario_of,
)
from replay.pipeline.project.format import DocumentFormat

EPILOG = "Example: replay explain 4643ba19-8f5c-4d9d-921a-eb6cb22bdb75 sample_audit/shop"


def explain(
    audit_id: AuditID,
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    current: CurrentSet = None,
    candidate: CandidateSet = None,
    add: AddedPolicies = None,
    apply: AppliedBundles = None,
    prune: PruneSelector = "",
    cluster: ClusterSnapshot = None,
    item: CollectionItem = 0,
    html: Annotated[Path | None, typer.Option(help="Write a web page to this file instead.")] = None,
    output: OutputFormat = DocumentFormat.TERMINAL,
    as_json: JsonOutput = False,
    tz: TimeZone = None,
    redact: Redaction = True,
    owner_label: OwnerLabel = "team",
    webhook: AuthorizerWebhooks = None,
    authorization_mode: AuthorizationMode = None,
    workspace: Workspaces = None,
    kubernetes_version: MinorVersion = None,
    current_version: CurrentVersion = None,
    candidate_version: CandidateVersion = None,
    down: DownWebhooks = None,
    current_down: CurrentDownWebhooks = None,
) -> None:
    """Why was this request denied, mutated or admitted?

    Shows what is known about the request and from where, which policies match and why others do not, and each expression with the
    values of its parts, its message, patch and cost.
    """
    import json  # noqa: PLC0415 - `--help` must not pay for the rest

    from rich.console import Console  # noqa: PLC0415

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.forensic.explain import explain as explain_request  # noqa: PLC0415
    from replay.pipeline.options import Focus, Options  # noqa: PLC0415
    from replay.pipeline.output import show, write_page  # noqa: PLC0415
    from replay.pipeline.period import time_zone  # noqa: PLC0415
    from replay.report.explain_report import explain_document, explain_json  # noqa: PLC0415

    zone = time_zone(tz)
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
        apply=apply,
        prune=prune,
        upgrade=(current_version, candidate_version),
        down=(current_down, down),
    )
    with progress_on(Console(stderr=True)) as progress:
        options = Options(
            redact=redact,
            owner_label=owner_label,
            webhooks=tuple(webhook or ()),
            authorization_mode=authorization_mode,
            focus=Focus(workspaces=tuple(workspace or ())),
        )
        explanation = explain_request(scenario, audit_id, progress, item=item, options=options)
    if as_json or output is DocumentFormat.JSON:
        sys.stdout.write(json.dumps(explain_json(explanation, zone), indent=1, ensure_ascii=False) + "\n")
    elif html is not None:
        write_page(explain_document(explanation, zone), html)
    else:
        show(explain_document(explanation, zone), output)
