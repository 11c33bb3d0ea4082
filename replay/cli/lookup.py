"""`replay lookup`."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from replay.cli.options import (
    AuthorizerWebhooks,
    BothSets,
    FullReport,
    Namespace,
    PeriodEnd,
    PeriodStart,
    Printed,
    Redaction,
    TimeZone,
    with_groups,
)

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


@with_groups
def lookup(
    *,
    source: BothSets,
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
    limit: Annotated[int, typer.Option(min=1, help="Number of decisions to list. --json lists all.")] = 20,
    full: FullReport = False,
    printed: Printed,
    tz: TimeZone = None,
    redact: Redaction = True,
) -> None:
    """Which policy, webhook or built-in plugin did what, to whom, and since when?

    Reads response messages and audit annotations. With --current, it also replays what a log cannot show, and marks it: further denials,
    warnings, and changes of mutating policies.
    """
    from replay.cli.progress import progress_on
    from replay.pipeline.authorization.lookup import AuthorizationQuestion, look_up_authorization
    from replay.pipeline.forensic.lookup import LookupFilter, look_up
    from replay.pipeline.options import Options
    from replay.pipeline.period import time_zone
    from replay.report import lookup_report as report

    zone, scenario = time_zone(tz), source.scenario()
    if decision or reason or authorizer or binding:
        asked = AuthorizationQuestion(decision, reason, authorizer, binding, user, namespace)
        with progress_on() as progress:
            authorized = look_up_authorization(scenario, asked, Options(webhooks=tuple(webhook or ())), progress)
        document = partial(report.authorization_lookup_document, rows=limit)
        printed.show(authorized, report.authorization_lookup_json, document)
        return
    action_name = action.value if action else None
    question = LookupFilter(policy, user, namespace, object_, since, until, action_name, audit_id, static, workspace)
    with progress_on() as progress:
        decisions = look_up(scenario, question, progress, zone=zone, redact=redact)
    printed.show(
        decisions,
        partial(report.lookup_json, zone=zone),
        partial(report.lookup_document, zone=zone, rows=limit),
        None if full else partial(report.lookup_screen, zone=zone),
    )
