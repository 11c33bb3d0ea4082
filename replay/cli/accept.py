"""`replay accept`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    AddedPolicies,
    CandidateSet,
    CandidateVersion,
    ClusterName,
    ClusterSnapshot,
    CurrentDownWebhooks,
    CurrentSet,
    CurrentVersion,
    DownWebhooks,
    FleetEngine,
    LogFormat,
    Logs,
    MinorVersion,
    Namespaces,
    PeriodEnd,
    PeriodStart,
    Policies,
    Scheduler,
    Store,
    Users,
    Workers,
    fleet_of,
    scenario_of,
)

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


def accept(
    logs: Logs = None,
    log_format: LogFormat = None,
    current: CurrentSet = None,
    candidate: CandidateSet = None,
    add: AddedPolicies = None,
    cluster: ClusterSnapshot = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    policy: Policies = None,
    namespace: Namespaces = None,
    user: Users = None,
    since: PeriodStart = None,
    until: PeriodEnd = None,
    by: Annotated[
        AcceptScope, typer.Option(help="Write one entry per denied workload, namespace or policy.")
    ] = AcceptScope.WORKLOAD,
    reason: Annotated[str, typer.Option(help="Why the denials are intended.")] = "",
    expires: Annotated[str, typer.Option(help="End of the acceptance: 2026-12-31, 90d from today, or never.")] = "90d",
    accepted: Annotated[Path, typer.Option(envvar="REPLAY_ACCEPTED", help="File to which entries are added.")] = Path(
        "accepted.yaml"
    ),
    print_only: Annotated[bool, typer.Option("--print", help="Print the entries instead of writing them.")] = False,
    workers: Workers = 0,
    engine: FleetEngine = None,
    scheduler: Scheduler = None,
    kubernetes_version: MinorVersion = None,
    current_version: CurrentVersion = None,
    candidate_version: CandidateVersion = None,
    down: DownWebhooks = None,
    current_down: CurrentDownWebhooks = None,
) -> None:
    """Record intended denials. `replay run` then counts them apart until they expire.

    Runs like `replay run` with the same options, and writes an entry for each finding that is not accepted yet. You can edit the entries:
    `*` and `?` are wildcards.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.errors import ReplayError  # noqa: PLC0415
    from replay.pipeline.options import Focus, Options  # noqa: PLC0415
    from replay.pipeline.period import today  # noqa: PLC0415
    from replay.pipeline.project.accepted import acceptances, accepted_text, add_accepted, expiry  # noqa: PLC0415
    from replay.pipeline.run import run  # noqa: PLC0415

    if not reason:
        raise ReplayError("say why this is intended", path="--reason")
    day = expiry(expires, today())
    scenario = scenario_of(
        logs,
        store,
        current,
        candidate,
        cluster,
        kubernetes_version,
        log_format=log_format,
        cluster_name=cluster_name,
        add=add,
        upgrade=(current_version, candidate_version),
        down=(current_down, down),
    )
    focus = Focus(tuple(policy or ()), tuple(namespace or ()), tuple(user or ()), since=since, until=until)
    with fleet_of(engine, scheduler, workers) as fleet, progress_on(Console(stderr=True)) as progress:
        options = Options(workers=workers, fleet=fleet, focus=focus, accepted=accepted, today=today())
        result = run(scenario, options, progress)
    entries = acceptances(result, by, reason, day)
    if print_only:
        sys.stdout.write(accepted_text(entries))
    elif entries:
        add_accepted(accepted, entries)
    until_when = f"until {day}" if day is not None else "for ever"
    where = "nothing is written" if print_only or not entries else f"written to {accepted}"
    sys.stderr.write(f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'} {until_when}; {where}\n")
