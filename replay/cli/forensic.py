"""Commands about what happened: `replay lookup`, `mutations`, `explain` and `timeline`."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    AuditID,
    AuthorizationMode,
    AuthorizerWebhooks,
    Baseline,
    BothSets,
    CollectionItem,
    FullReport,
    LogSource,
    Machines,
    Namespace,
    OwnerLabel,
    PeriodEnd,
    PeriodStart,
    Printed,
    Redaction,
    Rehearsal,
    Selection,
    TimeZone,
    Users,
    Workspaces,
    with_groups,
)
from replay.errors import ReplayError

LOOKUP_EPILOG = "Example: replay lookup audit.jsonl.zst --static --action deny --namespace 'prod-*' --since 7d --current manifests/current"


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
    from replay.pipeline.authorization.permission import AuthorizationQuestion, look_up_authorization
    from replay.pipeline.forensic.lookup import LookupFilter, look_up
    from replay.pipeline.options import Options, time_zone
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


MUTATIONS_EPILOG = (
    "Example: replay mutations audit.jsonl.zst --current manifests/current --cluster cluster.jsonl\n\n"
    "Exit code: 0 the log was read, 2 or more an error."
)


@with_groups
def mutations(
    *,
    source: Baseline,
    requests: Selection,
    full: FullReport = False,
    printed: Printed,
    redact: Redaction = True,
    machines: Machines,
) -> None:
    """Who changed objects between the request and the storage?

    Compares what clients sent with what was stored. Attributes each change to a webhook (by its annotation), a mutating policy of the
    baseline (by replay), a built-in plugin, the server itself, or an unknown cause.
    """
    from replay.cli.progress import progress_on
    from replay.pipeline.forensic.mutations import mutations as attribute
    from replay.pipeline.options import Options
    from replay.report.mutations_report import mutations_document, mutations_json, mutations_screen

    scenario = source.scenario()
    with machines.fleet() as fleet, progress_on() as progress:
        options = Options(redact=redact, workers=machines.workers, fleet=fleet, focus=requests.focus())
        result = attribute(scenario, options, progress)
    printed.show(result, mutations_json, mutations_document, None if full else mutations_screen, indent=2)


EXPLAIN_EPILOG = "Example: replay explain 4643ba19-8f5c-4d9d-921a-eb6cb22bdb75 sample_audit/shop"


@with_groups
def explain(
    *,
    audit_id: AuditID,
    source: Rehearsal,
    item: CollectionItem = 0,
    full: FullReport = False,
    html: Annotated[Path | None, typer.Option(help="Write a web page to this file instead.")] = None,
    printed: Printed,
    tz: TimeZone = None,
    redact: Redaction = True,
    owner_label: OwnerLabel = "team",
    webhook: AuthorizerWebhooks = None,
    authorization_mode: AuthorizationMode = None,
    workspace: Workspaces = None,
) -> None:
    """Why was this request denied, mutated or admitted?

    Prints the decision of each policy that matches, and why the candidate denies or changes the request. With --full: what is known about
    the request and from where, why other policies do not match, and each expression with the values of its parts, its message, patch and cost.
    """
    from replay.cli.progress import progress_on
    from replay.pipeline.forensic.explain import explain as explain_request
    from replay.pipeline.options import Focus, Options, time_zone
    from replay.pipeline.output import write_page
    from replay.report.explain_report import explain_document, explain_json
    from replay.report.explain_screen import explain_screen

    zone, scenario = time_zone(tz), source.scenario()
    options = Options(
        redact=redact,
        owner_label=owner_label,
        webhooks=tuple(webhook or ()),
        authorization_mode=authorization_mode,
        focus=Focus(workspaces=tuple(workspace or ())),
    )
    with progress_on() as progress:
        explanation = explain_request(scenario, audit_id, progress, item=item, options=options)
    if html is not None and not printed.is_json:
        write_page(explain_document(explanation, zone), html)
    else:
        screen = None if full else partial(explain_screen, zone=zone)
        printed.show(explanation, partial(explain_json, zone=zone), partial(explain_document, zone=zone), screen)


TIMELINE_EPILOG = "Example: replay timeline Deployment team-a/app-871 sample_audit/shop"


@with_groups
def timeline(
    *,
    kind: Annotated[str, typer.Argument(help="Kind or resource, with its group if needed: Deployment, jobs.batch.")],
    name: Annotated[str, typer.Argument(help="NAMESPACE/NAME, or NAME for cluster-scoped objects.")],
    source: LogSource,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the object, if NAME does not include it.")
    ] = "",
    user: Users = None,
    since: PeriodStart = None,
    until: PeriodEnd = None,
    printed: Printed,
    tz: TimeZone = None,
    redact: Redaction = True,
) -> None:
    """What happened to an object, who did it, and what did admission decide?

    Lists every request that could change the object, with the changed fields, the users and the decisions.
    """
    from replay.cli.progress import progress_on
    from replay.pipeline.forensic.timeline import object_timeline
    from replay.pipeline.options import Focus, time_zone
    from replay.report.timeline_report import timeline_document, timeline_json

    zone, scenario = time_zone(tz), source.scenario()
    focus = Focus(users=tuple(user or ()), since=since, until=until, zone=zone)
    with progress_on() as progress:
        history = object_timeline(scenario, kind, _whole(name, namespace), progress, focus, redact=redact)
    printed.show(history, partial(timeline_json, zone=zone), partial(timeline_document, zone=zone))


def _whole(name: str, namespace: str) -> str:
    """Return the name with its namespace. Raises ReplayError if two namespaces are given and differ."""
    own, slash, _ = name.rpartition("/")
    if slash and namespace not in ("", own):
        raise ReplayError(f"`{name}` is not in the namespace `{namespace}`: name one of them")
    return name if slash or not namespace else f"{namespace}/{name}"
