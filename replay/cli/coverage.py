"""`replay coverage`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.options import BothSets, FullReport, Machines, Printed, Selection, Workspaces, with_groups
from replay.errors import ReplayError, reason_of

if TYPE_CHECKING:
    from replay.compare.result import CoverageResult

EPILOG = (
    "Example: replay coverage audit.jsonl.zst --candidate manifests/next --policy audit-policy.yaml\n\n"
    "Exit code: 0 the log was read, 2 or more an error."
)


@with_groups
def coverage(
    *,
    source: BothSets,
    requests: Selection,
    workspace: Workspaces = None,
    policy: Annotated[
        Path | None, typer.Option(help="Write the audit policy to this file; - prints only the policy.")
    ] = None,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Also record Secrets in the audit policy, if a policy reads them.")
    ] = False,
    full: FullReport = False,
    printed: Printed,
    machines: Machines,
) -> None:
    """How much of a log can be decided, and which audit policy would record the rest?

    Counts by resource, verb and level which requests the given manifests can decide. Without manifests, it assumes any possible policy.
    Lists what is missing by the number of undetermined verdicts, and writes a minimal audit policy.
    """
    from replay.cli.progress import progress_on
    from replay.pipeline.coverage import coverage as measure
    from replay.pipeline.options import Options
    from replay.report.coverage_report import coverage_document, coverage_json, coverage_screen, policy_text

    scenario, focus = source.scenario(), requests.focus(workspaces=workspace)
    with machines.fleet() as fleet, progress_on() as progress:
        options = Options(workers=machines.workers, fleet=fleet, focus=focus)
        result = measure(scenario, options, progress, secrets=secrets)
    if policy is not None and str(policy) == "-":
        sys.stdout.write(policy_text(result))
        return
    if policy is not None:
        _write_policy(result, policy)
    printed.show(result, coverage_json, coverage_document, None if full else coverage_screen, indent=2)


def _write_policy(result: CoverageResult, path: Path) -> None:
    from replay.report.coverage_report import policy_text

    try:
        path.write_text(policy_text(result), encoding="utf-8")
    except OSError as error:
        raise ReplayError(f"the policy cannot be written: {reason_of(error)}", path=str(path)) from error
