"""`replay explain`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    AuditID,
    AuthorizationMode,
    AuthorizerWebhooks,
    CollectionItem,
    FullReport,
    OwnerLabel,
    Printed,
    Redaction,
    Rehearsal,
    TimeZone,
    Workspaces,
    with_groups,
)

EPILOG = "Example: replay explain 4643ba19-8f5c-4d9d-921a-eb6cb22bdb75 sample_audit/shop"


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
    from replay.pipeline.options import Focus, Options
    from replay.pipeline.output import write_page
    from replay.pipeline.period import time_zone
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
