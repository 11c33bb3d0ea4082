"""`replay timeline`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from replay.cli.options import LogSource, PeriodEnd, PeriodStart, Printed, Redaction, TimeZone, Users, with_groups
from replay.errors import ReplayError

EPILOG = "Example: replay timeline Deployment team-a/app-871 sample_audit/shop"


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
    from replay.pipeline.options import Focus
    from replay.pipeline.period import time_zone
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
