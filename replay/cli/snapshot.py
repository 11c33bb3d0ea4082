"""`replay snapshot`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import CandidateSet, CurrentSet, MinorVersion
from replay.errors import ReplayError
from replay.pipeline.version import version_of

EPILOG = (
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
