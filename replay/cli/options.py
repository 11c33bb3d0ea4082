"""Options that several commands have: where the log and the manifests are, and how to print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from replay.pipeline.scenario import Scenario

Logs = Annotated[
    list[str] | None,
    typer.Argument(help="Audit logs: files, directories, globs, - for standard input; or one scenario directory."),
]
LogFormat = Annotated[
    str | None, typer.Option("--from", metavar="FORMAT", help="What wrote the logs, where that is not recognised.")
]
Store = Annotated[Path | None, typer.Option(help="A store: asked alone, or filled with the log files given.")]
Current = Annotated[
    Path | None, typer.Option(help="The manifests in force: a directory or an AdmissionConfiguration file.")
]
Candidate = Annotated[Path | None, typer.Option(help="The manifests that are planned.")]
Add = Annotated[
    list[Path] | None,
    typer.Option("--add", help="Policies that are planned on top of the current set: a file or a set. Repeatable."),
]
Cluster = Annotated[Path | None, typer.Option(help="A snapshot of cluster objects (`replay snapshot`).")]
Version = Annotated[str, typer.Option("--kubernetes-version", help="The API server's minor version, 1.30 to 1.37.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TimeZone = Annotated[str | None, typer.Option("--tz", help="The time zone of printed times, such as Europe/Berlin.")]
Redact = Annotated[bool, typer.Option(help="Hide Secret data and tokens.")]
AuthorizationMode = Annotated[
    str | None,
    typer.Option(help="The chain of a set without authorization.yaml: `Node,RBAC`, or a kube-apiserver manifest."),
]
AuthorizerWebhooks = Annotated[
    list[str] | None,
    typer.Option(
        "--webhook", metavar="NAME=FILE|NAME=URL", help="Recorded SubjectAccessReviews, or whom to ask. Repeatable."
    ),
]
Workers = Annotated[int, typer.Option(min=0, help="Processes; 0 means one for each core.")]


def scenario_of(
    logs: Sequence[str] | None,
    store: Path | None = None,
    current: Path | None = None,
    candidate: Path | None = None,
    cluster: Path | None = None,
    kubernetes_version: str = "1.37",
    *,
    log_format: str | None = None,
    add: Sequence[Path] | None = None,
) -> Scenario:
    """What the options of a command are about. Raises ReplayError for a version that is not known."""
    from replay.cellib.version import KubernetesVersion  # noqa: PLC0415 - `--help` must not pay for it
    from replay.pipeline.scenario import Scenario  # noqa: PLC0415

    version = KubernetesVersion.parse(kubernetes_version)
    found = Scenario(
        tuple(logs or ()),
        log_format=log_format or "",
        store=store,
        current=current,
        candidate=candidate,
        add=tuple(add or ()),
        cluster=cluster,
        version=version,
    )
    return found.resolved()
