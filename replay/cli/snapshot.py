"""`replay snapshot`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.errors import ReplayError

EPILOG = (
    "Example: replay snapshot --candidate manifests/next --out cluster.jsonl\n\n"
    "replay snapshot --candidate manifests/next --print\n\n"
    "Exit code: 0 the snapshot is written, 2 or more an error."
)


def snapshot(
    current: Annotated[Path | None, typer.Option(help="The manifests in force.")] = None,
    candidate: Annotated[Path | None, typer.Option(help="The manifests that are planned.")] = None,
    out: Annotated[Path, typer.Option(help="The file to write, for --cluster.")] = Path("cluster.jsonl"),
    print_only: Annotated[bool, typer.Option("--print", help="Print the commands instead of running them.")] = False,
    objects: Annotated[
        bool, typer.Option("--objects", help="Also the objects whose state before the log begins policies read.")
    ] = False,
    context: Annotated[str, typer.Option(help="The context of your kubeconfig.")] = "",
    kubeconfig: Annotated[Path | None, typer.Option(help="Another kubeconfig.")] = None,
    kubernetes_version: Annotated[
        str, typer.Option("--kubernetes-version", help="The API server's minor version, 1.30 to 1.37.")
    ] = "1.37",
) -> None:
    """Write down what of a cluster the decisions look up, with your own kubectl.

    Only reads, and only the kinds that the given sets need: namespaces, parameters, RBAC, CRDs, admission policies.
    Secrets never.
    """
    from replay.cellib.version import KubernetesVersion  # noqa: PLC0415 - `--help` must not pay for it
    from replay.pipeline.snapshot import command, kubectl_command, secret_params, take, wanted  # noqa: PLC0415

    sets = [path for path in (current, candidate) if path is not None]
    if not sets:
        raise ReplayError("no manifest set: give --current, --candidate or both")
    version = KubernetesVersion.parse(kubernetes_version)
    resources = wanted(sets, version, objects=objects)
    for policy in secret_params(sets, version):
        sys.stderr.write(f"replay: {policy} takes Secrets as parameters, which a snapshot never holds\n")
    kubectl = kubectl_command(context, kubeconfig)
    if print_only:
        folder = out.with_suffix("")
        sys.stdout.write(f"mkdir -p {shlex.quote(str(folder))}  # then: --cluster {shlex.quote(str(folder))}\n")
        for each in resources:
            file = shlex.quote(str(folder / f"{each.resource}.json"))
            sys.stdout.write(f"{shlex.join(command(each, kubectl))} > {file}  # {each.reason}\n")
        return
    count = take(resources, kubectl, out)
    sys.stdout.write(f"{out}: {count} objects of {len(resources)} kinds\n")
