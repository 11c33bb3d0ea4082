"""`replay accept`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import Machines, Policies, Rehearsal, Selection, with_groups

EPILOG = (
    "Example: replay accept --policy image-registries --namespace legacy --reason 'moves in December' --expires 60d\n\n"
    "replay accept audit.jsonl.zst --current now/ --candidate next/ --by policy --reason 'meant' --expires never\n\n"
    "Exit code: 0 the file is written, 2 or more an error."
)


class AcceptScope(StrEnum):
    """How much one entry accepts."""

    POLICY = "policy"
    NAMESPACE = "namespace"
    WORKLOAD = "workload"


@with_groups
def accept(
    *,
    source: Rehearsal,
    policy: Policies = None,
    requests: Selection,
    by: Annotated[
        AcceptScope, typer.Option(help="Write one entry per denied workload, namespace or policy.")
    ] = AcceptScope.WORKLOAD,
    reason: Annotated[str, typer.Option(help="Why the denials are intended.")] = "",
    expires: Annotated[str, typer.Option(help="End of the acceptance: 2026-12-31, 90d from today, or never.")] = "90d",
    accepted: Annotated[Path, typer.Option(envvar="REPLAY_ACCEPTED", help="File to which entries are added.")] = Path(
        "accepted.yaml"
    ),
    print_only: Annotated[bool, typer.Option("--print", help="Print the entries instead of writing them.")] = False,
    machines: Machines,
) -> None:
    """Record intended denials. `replay run` then counts them apart until they expire.

    Runs like `replay run` with the same options, and writes an entry for each finding that is not accepted yet. You can edit the entries:
    `*` and `?` are wildcards.
    """
    from replay.cli.progress import progress_on
    from replay.errors import ReplayError
    from replay.pipeline.options import Options
    from replay.pipeline.period import today
    from replay.pipeline.project.accepted import acceptances, accepted_text, add_accepted, expiry
    from replay.pipeline.run import run

    if not reason:
        raise ReplayError("say why this is intended", path="--reason")
    day = expiry(expires, today())
    scenario, focus = source.scenario(), requests.focus(policies=policy)
    with machines.fleet() as fleet, progress_on() as progress:
        options = Options(workers=machines.workers, fleet=fleet, focus=focus, accepted=accepted, today=today())
        result = run(scenario, options, progress)
    entries = acceptances(result, by, reason, day)
    if print_only:
        sys.stdout.write(accepted_text(entries))
    elif entries:
        add_accepted(accepted, entries)
    until_when = f"until {day}" if day is not None else "for ever"
    where = "nothing is written" if print_only or not entries else f"written to {accepted}"
    sys.stderr.write(f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'} {until_when}; {where}\n")
