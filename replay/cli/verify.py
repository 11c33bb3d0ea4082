"""`replay verify`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from replay.cli.options import (
    AuthorizationMode,
    AuthorizerWebhooks,
    Cluster,
    Current,
    LogFormat,
    Logs,
    Store,
    Version,
    Workers,
    scenario_of,
)

EPILOG = (
    "Example: replay verify audit.jsonl.zst --current manifests/current --cluster cluster.jsonl\n\n"
    "Exit code: 0 nothing in the log contradicts the set, 1 something does, 2 or more an error."
)
DISAGREES = 1


def verify(
    logs: Logs = None,
    log_format: LogFormat = None,
    current: Current = None,
    cluster: Cluster = None,
    store: Store = None,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Ask cel-python too, about one request in 25.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    webhook: AuthorizerWebhooks = None,
    authorization_mode: AuthorizationMode = None,
    workers: Workers = 0,
    kubernetes_version: Version = "1.37",
) -> None:
    """Does the set that is said to have been in force explain what the log says happened?

    Replays it and compares denials, audited failures, audit annotations and mutations; names the likely cause of each
    difference, and finds when a policy came into force or that API servers had different manifests.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.options import Options  # noqa: PLC0415
    from replay.pipeline.verify import verify as compare  # noqa: PLC0415
    from replay.report.render.terminal import print_document  # noqa: PLC0415
    from replay.report.verify_report import agrees, verify_document, verify_json  # noqa: PLC0415

    scenario = scenario_of(logs, store, current, None, cluster, kubernetes_version, log_format=log_format)
    options = Options(workers=workers, webhooks=tuple(webhook or ()), authorization_mode=authorization_mode)
    with progress_on(Console(stderr=True)) as progress:
        result = compare(scenario, options, progress, second_opinion=second_opinion)
    if as_json:
        sys.stdout.write(json.dumps(verify_json(result), indent=2, ensure_ascii=False) + "\n")
    else:
        print_document(verify_document(result), Console(highlight=False))
    raise typer.Exit(0 if agrees(result) else DISAGREES)
