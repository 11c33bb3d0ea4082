"""`replay coverage`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.options import Candidate, Cluster, Current, LogFormat, Logs, Store, Version, Workers, scenario_of
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.compare.result import CoverageResult

EPILOG = (
    "Example: replay coverage audit.jsonl.zst --candidate manifests/next --policy audit-policy.yaml\n\n"
    "Exit code: 0 the log was read, 2 or more an error."
)


def coverage(
    logs: Logs = None,
    log_format: LogFormat = None,
    current: Current = None,
    candidate: Candidate = None,
    cluster: Cluster = None,
    store: Store = None,
    policy: Annotated[
        Path | None, typer.Option(help="Write the audit policy to this file, - for nothing else.")
    ] = None,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Let the policy record Secrets too, if some policy reads them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    workers: Workers = 0,
    kubernetes_version: Version = "1.37",
) -> None:
    """How much of this log can be decided, and which audit policy would record what is missing?

    Counts by resource, verb and level what the given manifests (without any: whatever policy might be written) can be
    decided for, lists what is missing by how many verdicts it costs, and writes a minimal audit policy.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.coverage import coverage as measure  # noqa: PLC0415
    from replay.pipeline.options import Options  # noqa: PLC0415
    from replay.report.coverage_report import coverage_document, coverage_json, policy_text  # noqa: PLC0415
    from replay.report.render.terminal import print_document  # noqa: PLC0415

    scenario = scenario_of(logs, store, current, candidate, cluster, kubernetes_version, log_format=log_format)
    options = Options(workers=workers)
    with progress_on(Console(stderr=True)) as progress:
        result = measure(scenario, options, progress, secrets=secrets)
    if policy is not None and str(policy) != "-":
        _write_policy(result, policy)
    if policy is not None and str(policy) == "-":
        sys.stdout.write(policy_text(result))
    elif as_json:
        sys.stdout.write(json.dumps(coverage_json(result), indent=2, ensure_ascii=False) + "\n")
    else:
        print_document(coverage_document(result), Console(highlight=False))


def _write_policy(result: CoverageResult, path: Path) -> None:
    from replay.report.coverage_report import policy_text  # noqa: PLC0415

    try:
        path.write_text(policy_text(result), encoding="utf-8")
    except OSError as error:
        raise ReplayError(f"the policy cannot be written: {error.strerror}", path=str(path)) from error
