"""`replay timeline`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from replay.cli.options import AsJson, LogFormat, Logs, Redact, Store, TimeZone, scenario_of

EPILOG = "Example: replay timeline Deployment team-a/app-871 sample_audit/shop"


def timeline(
    kind: Annotated[str, typer.Argument(help="Kind or resource, with its group if need be: Deployment, jobs.batch.")],
    name: Annotated[str, typer.Argument(help="NAMESPACE/NAME, or NAME for cluster scope.")],
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    as_json: AsJson = False,
    tz: TimeZone = None,
    redact: Redact = True,
) -> None:
    """What happened to an object, who did it, and what did admission say?

    Lists every request that could change it, with the fields that did change, the users, and the decisions.
    """
    import json  # noqa: PLC0415 - `--help` must not pay for the rest

    from rich.console import Console  # noqa: PLC0415

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.forensic.timeline import object_timeline  # noqa: PLC0415
    from replay.pipeline.period import time_zone  # noqa: PLC0415
    from replay.report.render.terminal import print_document  # noqa: PLC0415
    from replay.report.timeline_report import timeline_document, timeline_json  # noqa: PLC0415

    zone, scenario = time_zone(tz), scenario_of(logs, store, log_format=log_format)
    with progress_on(Console(stderr=True)) as progress:
        found = object_timeline(scenario, kind, name, progress, redact=redact)
    if as_json:
        sys.stdout.write(json.dumps(timeline_json(found, zone), indent=1, ensure_ascii=False) + "\n")
    else:
        print_document(timeline_document(found, zone), Console(highlight=False))
