"""`replay lookup`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from replay.cli.options import (
    AuthorizerWebhooks,
    CandidateSet,
    ClusterName,
    ClusterSnapshot,
    CurrentSet,
    FullReport,
    JsonOutput,
    LogFormat,
    Logs,
    MinorVersion,
    Namespace,
    OutputFormat,
    PeriodEnd,
    PeriodStart,
    Redaction,
    Store,
    TimeZone,
    scenario_of,
)
from replay.pipeline.project.format import DocumentFormat

EPILOG = "Example: replay lookup audit.jsonl.zst --static --action deny --namespace 'prod-*' --since 7d --current manifests/current"


class ActionChoice(StrEnum):
    """Action of admission."""

    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"
    MUTATE = "mutate"
    FAILED_OPEN = "failed-open"
    ANNOTATE = "annotate"


class DecisionFilter(StrEnum):
    """Decision that the client saw: 403 for `forbid`, 500 for `error`."""

    ALLOW = "allow"
    FORBID = "forbid"
    ERROR = "error"


def lookup(
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    policy: Annotated[
        str | None, typer.Option(help="Only this policy, webhook or built-in plugin; * matches any text.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only requests of this user; * matches any text.")] = None,
    namespace: Namespace = None,
    workspace: Annotated[
        str | None,
        typer.Option(
            "--workspace", "-w", help="kcp: only requests to this workspace, given by its path; * matches any text."
        ),
    ] = None,
    object_: Annotated[
        str | None, typer.Option("--object", help="Only this object: NAME or RESOURCE/NAME; * matches any text.")
    ] = None,
    since: PeriodStart = None,
    until: PeriodEnd = None,
    action: Annotated[
        ActionChoice | None, typer.Option(help="Only this action. `audit` excludes requests that were also denied.")
    ] = None,
    audit_id: Annotated[str | None, typer.Option("--audit-id", help="Only this request.")] = None,
    static: Annotated[
        bool, typer.Option("--static", help="Only policies and webhooks from static manifests (.static.k8s.io).")
    ] = False,
    decision: Annotated[
        DecisionFilter | None, typer.Option(help="Look up decisions of the authorizers instead, including reads.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason of an authorizer; * matches any text.")] = None,
    authorizer: Annotated[str | None, typer.Option(help="Authorizer that decided (needs --current).")] = None,
    binding: Annotated[
        str | None, typer.Option(help="RBAC binding that allowed the request; * matches any text.")
    ] = None,
    webhook: AuthorizerWebhooks = None,
    current: CurrentSet = None,
    candidate: CandidateSet = None,
    cluster: ClusterSnapshot = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of decisions to list. --json lists all.")] = 20,
    full: FullReport = False,
    output: OutputFormat = DocumentFormat.TERMINAL,
    as_json: JsonOutput = False,
    tz: TimeZone = None,
    redact: Redaction = True,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Which policy, webhook or built-in plugin did what, to whom, and since when?

    Reads response messages and audit annotations. With --current, it also replays what a log cannot show, and marks it: further denials,
    warnings, and changes of mutating policies.
    """
    import json  # noqa: PLC0415 - `--help` must not pay for the rest

    from rich.console import Console  # noqa: PLC0415

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.authorization.lookup import AuthorizationQuestion, look_up_authorization  # noqa: PLC0415
    from replay.pipeline.forensic.lookup import LookupFilter, look_up  # noqa: PLC0415
    from replay.pipeline.options import Options  # noqa: PLC0415
    from replay.pipeline.output import show  # noqa: PLC0415
    from replay.pipeline.period import time_zone  # noqa: PLC0415
    from replay.report.lookup_report import (  # noqa: PLC0415
        authorization_lookup_document,
        authorization_lookup_json,
        lookup_document,
        lookup_json,
        lookup_screen,
    )

    zone = time_zone(tz)
    if decision or reason or authorizer or binding:
        scenario = scenario_of(
            logs,
            store,
            current,
            candidate,
            cluster,
            kubernetes_version,
            log_format=log_format,
            cluster_name=cluster_name,
        )
        authorization_question = AuthorizationQuestion(decision, reason, authorizer, binding, user, namespace)
        options = Options(webhooks=tuple(webhook or ()))
        with progress_on(Console(stderr=True)) as progress:
            authorized = look_up_authorization(scenario, authorization_question, options, progress)
        if as_json or output is DocumentFormat.JSON:
            sys.stdout.write(json.dumps(authorization_lookup_json(authorized), indent=1, ensure_ascii=False) + "\n")
        else:
            show(authorization_lookup_document(authorized, limit), output)
        return
    action_name = action.value if action else None
    question = LookupFilter(policy, user, namespace, object_, since, until, action_name, audit_id, static, workspace)
    scenario = scenario_of(
        logs, store, current, candidate, cluster, kubernetes_version, log_format=log_format, cluster_name=cluster_name
    )
    with progress_on(Console(stderr=True)) as progress:
        decisions = look_up(scenario, question, progress, zone=zone, redact=redact)
    if as_json or output is DocumentFormat.JSON:
        sys.stdout.write(json.dumps(lookup_json(decisions, zone), indent=1, ensure_ascii=False) + "\n")
    else:
        show(lookup_document(decisions, zone, limit), output, None if full else lookup_screen(decisions, zone))
