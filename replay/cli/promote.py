"""`replay promote`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from replay.cli.options import Baseline, FullReport, Machines, OwnerLabel, Printed, Selection, TimeZone, with_groups

EPILOG = (
    "Example: replay promote cand-team-label sample_audit/shop\n\n"
    "replay promote team-label audit.jsonl.zst --current manifests/current --cluster cluster.jsonl --format html > promote.html\n\n"
    "Exit code: 0 nothing that is admitted today would be denied, 1 something would or could, 2 or more an error."
)
NOT_READY = 1


@with_groups
def promote(
    *,
    policy: Annotated[
        str,
        typer.Argument(
            help="A policy of the baseline that audits or warns, native or of an engine: its name or a part of it."
        ),
    ],
    source: Baseline,
    requests: Selection,
    owner_label: OwnerLabel = "team",
    full: FullReport = False,
    printed: Printed,
    tz: TimeZone = None,
    machines: Machines,
) -> None:
    """Can this policy deny, instead of only auditing or warning?

    Answers for one policy: what it denied in audit, which requests it would deny directly, what would fail as a consequence, lockouts,
    the owners of the workloads, since when nothing new was hit, and how sure that is. Prints the change of the bindings.
    """
    from replay.cli.progress import progress_on
    from replay.pipeline.options import Options
    from replay.pipeline.period import time_zone
    from replay.pipeline.promote import promote as promote_policy
    from replay.report.promotion import is_ready, promotion_document, promotion_json, promotion_screen

    zone, scenario = time_zone(tz), source.scenario()
    with machines.fleet() as fleet, progress_on() as progress:
        focus = requests.focus(zone=zone)
        options = Options(workers=machines.workers, fleet=fleet, focus=focus, owner_label=owner_label)
        promoted = promote_policy(scenario, policy, options, progress)
    printed.show(
        promoted,
        promotion_json,
        partial(promotion_document, zone=zone),
        None if full else partial(promotion_screen, zone=zone),
        indent=2,
    )
    raise typer.Exit(0 if is_ready(promoted) else NOT_READY)
