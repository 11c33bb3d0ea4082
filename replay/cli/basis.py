"""Commands about what a replay is based on: `replay snapshot`, `coverage` and `verify`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.options import (
    AuthorizationMode,
    AuthorizerWebhooks,
    Baseline,
    BothSets,
    CandidateSet,
    CurrentSet,
    FullReport,
    Machines,
    MinorVersion,
    Printed,
    Selection,
    Workspaces,
    with_groups,
)
from replay.errors import ReplayError, reason_of
from replay.pipeline.version import version_of

if TYPE_CHECKING:
    from replay.compare.result import CoverageResult


SNAPSHOT_EPILOG = (
    "Example: replay snapshot --candidate manifests/next --out cluster.jsonl\n\n"
    "replay snapshot --candidate manifests/next --print\n\n"
    "replay snapshot --by-workspace --context provider --context team-a --out now\n\n"
    "Exit code: 0 the snapshot is written, 2 or more an error."
)


def snapshot(
    current: CurrentSet = None,
    candidate: CandidateSet = None,
    out: Annotated[Path, typer.Option(help="File to write, for --cluster.")] = Path("cluster.jsonl"),
    print_only: Annotated[bool, typer.Option("--print", help="Print the commands instead of running them.")] = False,
    objects: Annotated[
        bool, typer.Option("--objects", help="Also take objects whose state before the start of the log is needed.")
    ] = False,
    by_workspace: Annotated[
        bool,
        typer.Option(
            "--by-workspace",
            help="kcp: write a directory below --out for the workspace of each --context. Needs no set.",
        ),
    ] = False,
    context: Annotated[
        list[str] | None, typer.Option(help="Context of your kubeconfig. Repeatable with --by-workspace.")
    ] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Another kubeconfig.")] = None,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Take a snapshot of the cluster objects that the sets look up, with your own kubectl.

    Only reads, and only the kinds that the sets need: namespaces, parameters, RBAC, CRDs, admission policies. Never reads Secrets.
    """
    from replay.pipeline.snapshot import command, kubectl_command, secret_params, take, wanted

    contexts = context or [""]
    if by_workspace:
        _by_workspace(contexts, kubeconfig, out, print_only=print_only)
        return
    if len(contexts) > 1:
        raise ReplayError("several --context are for --by-workspace alone")
    sets = [path for path in (current, candidate) if path is not None]
    if not sets:
        raise ReplayError("no manifest set: give --current, --candidate or both")
    version = version_of(kubernetes_version)
    resources = wanted(sets, version, objects=objects)
    for policy in secret_params(sets, version):
        sys.stderr.write(f"replay: {policy} takes Secrets as parameters, which a snapshot never holds\n")
    kubectl = kubectl_command(contexts[0], kubeconfig)
    if print_only:
        folder = out.with_suffix("")
        sys.stdout.write(f"mkdir -p {shlex.quote(str(folder))}  # then: --cluster {shlex.quote(str(folder))}\n")
        for each in resources:
            file = shlex.quote(str(folder / f"{each.resource}.json"))
            sys.stdout.write(f"{shlex.join(command(each, kubectl))} > {file}  # {each.reason}\n")
        return
    count = take(resources, kubectl, out)
    sys.stdout.write(f"{out}: {count} objects of {len(resources)} kinds\n")


def _by_workspace(contexts: list[str], kubeconfig: Path | None, out: Path, *, print_only: bool) -> None:
    """Return a folder for the workspace of each context."""
    from replay.pipeline.snapshot import (
        commands,
        kubectl_command,
        take_workspace,
    )

    directory = out.with_suffix("") if out.suffix else out
    for each in contexts:
        kubectl = kubectl_command(each, kubeconfig)
        if print_only:
            sys.stdout.writelines(f"{shlex.join(line)}\n" for line in commands(kubectl))
            continue
        path, count = take_workspace(kubectl, directory)
        sys.stdout.write(f"{directory}: {count} objects of {path}\n")


COVERAGE_EPILOG = (
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


VERIFY_EPILOG = (
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
