"""`replay verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from replay.cli.options import (
    AuthorizationMode,
    AuthorizerWebhooks,
    Baseline,
    FullReport,
    Machines,
    Printed,
    Selection,
    Workspaces,
    with_groups,
)

EPILOG = (
    "Example: replay verify audit.jsonl.zst --current manifests/current --cluster cluster.jsonl\n\n"
    "Exit code: 0 the log agrees with the set, 1 it does not, 2 or more an error."
)
DISAGREES = 1


@with_groups
def verify(
    *,
    source: Baseline,
    requests: Selection,
    workspace: Workspaces = None,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Also evaluate one request in 25 with cel-python.")
    ] = False,
    full: FullReport = False,
    printed: Printed,
    webhook: AuthorizerWebhooks = None,
    authorization_mode: AuthorizationMode = None,
    machines: Machines,
) -> None:
    """Does the baseline explain what the log shows?

    Compares denials, audited failures, audit annotations and mutations with the log. Names the likely cause of each difference: a policy
    that came into force later, or API servers with different manifests.
    """
    from replay.cli.progress import progress_on
    from replay.pipeline.options import Options
    from replay.pipeline.verify import verify as compare
    from replay.report.verify_report import agrees, verify_document, verify_json, verify_screen

    scenario = source.scenario()
    with machines.fleet() as fleet, progress_on() as progress:
        options = Options(
            workers=machines.workers,
            fleet=fleet,
            webhooks=tuple(webhook or ()),
            authorization_mode=authorization_mode,
            focus=requests.focus(workspaces=workspace),
        )
        result = compare(scenario, options, progress, second_opinion=second_opinion)
    printed.show(result, verify_json, verify_document, None if full else verify_screen, indent=2)
    raise typer.Exit(0 if agrees(result) else DISAGREES)
