"""Options that several commands have: where the log and the manifests are, and how to print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from replay.cellib.version import NEWEST, OLDEST_MINOR
from replay.pipeline.project.format import DocumentFormat

if TYPE_CHECKING:
    from replay.pipeline.scenario import Scenario

Logs = Annotated[
    list[str] | None,
    typer.Argument(
        envvar="REPLAY_LOGS",
        help="Audit logs: files, directories, globs, s3://, gs://, az:// and https:// URLs, - for standard input; or one "
        "scenario directory.",
    ),
]
LogFormat = Annotated[
    str | None, typer.Option("--from", metavar="FORMAT", help="What wrote the logs, where that is not recognised.")
]
Store = Annotated[
    str | None,
    typer.Option(
        envvar="REPLAY_STORE",
        metavar="DIR|URL",
        help="A store: asked alone, or filled with the log files given; s3://, gs:// and az:// are buckets.",
    ),
]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster-name",
        metavar="NAME",
        envvar="REPLAY_CLUSTER_NAME",
        help="Of a store of several clusters: this one; several by a pattern for lookup, report and sql.",
    ),
]
CurrentSet = Annotated[
    Path | None,
    typer.Option(
        envvar="REPLAY_CURRENT", help="The manifests in force: a directory or an AdmissionConfiguration file."
    ),
]
CandidateSet = Annotated[Path | None, typer.Option(envvar="REPLAY_CANDIDATE", help="The manifests that are planned.")]
AddedPolicies = Annotated[
    list[Path] | None,
    typer.Option("--add", help="Policies that are planned on top of the current set: a file or a set. Repeatable."),
]
ClusterSnapshot = Annotated[
    Path | None, typer.Option(envvar="REPLAY_CLUSTER", help="A snapshot of cluster objects (`replay snapshot`).")
]
MinorVersion = Annotated[
    str | None,
    typer.Option(
        "--kubernetes-version",
        envvar="REPLAY_KUBERNETES_VERSION",
        help=f"The API server's minor version, 1.{OLDEST_MINOR} to {NEWEST}; {NEWEST} if not said, of kcp 1.36.",
    ),
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OutputFormat = Annotated[DocumentFormat, typer.Option("--format", help="How to print it.")]
TimeZone = Annotated[
    str | None, typer.Option("--tz", envvar="REPLAY_TZ", help="The time zone of printed times, such as Europe/Berlin.")
]
PeriodStart = Annotated[
    str | None, typer.Option(help="7d, 12h, 30m before the last event, or a time such as 2026-11-21T03:00Z.")
]
PeriodEnd = Annotated[str | None, typer.Option("--until", "--to", help="The end, likewise; the last event without it.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="* stands for anything.")]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", "-P", help="This policy alone: its name, a part of it, or with *. Repeatable."),
]
AcceptanceFile = Annotated[
    Path | None,
    typer.Option(envvar="REPLAY_ACCEPTED", help="The file of what is meant to be denied (`replay accept`)."),
]
OutputFile = Annotated[Path | None, typer.Option(help="Print to this file instead, - for standard output.")]
Namespaces = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", help="Only requests there; * stands for anything. Repeatable."),
]
Users = Annotated[list[str] | None, typer.Option(help="Only requests of this user; * stands for anything. Repeatable.")]
RetentionLength = Annotated[
    str, typer.Option(help="Keep this long before the last request of the store: 30d, 12h, 4w.")
]
RetentionSize = Annotated[
    str, typer.Option(help="Keep the newest ingests that take this much on the disk: 500MB, 50GB.")
]
OwnerLabel = Annotated[
    str, typer.Option(envvar="REPLAY_OWNER_LABEL", help="The label of a namespace that names its owner.")
]
Redaction = Annotated[bool, typer.Option(help="Hide Secret data and tokens.")]
Workspaces = Annotated[
    list[str] | None,
    typer.Option(
        "--workspace",
        "-w",
        help="Of kcp: only this workspace, that requests are to, by its path; * stands for anything. Repeatable.",
    ),
]
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
Workers = Annotated[int, typer.Option(min=0, envvar="REPLAY_WORKERS", help="Processes; 0 means one for each core.")]


def scenario_of(
    logs: Sequence[str] | None,
    store: str | None = None,
    current: Path | None = None,
    candidate: Path | None = None,
    cluster: Path | None = None,
    kubernetes_version: str | None = None,
    *,
    log_format: str | None = None,
    add: Sequence[Path] | None = None,
    cluster_name: str | None = None,
) -> Scenario:
    """What the options of a command are about. Raises ReplayError for a version or a cluster that is not known."""
    from replay.pipeline.scenario import Scenario  # noqa: PLC0415
    from replay.pipeline.version import version_of  # noqa: PLC0415
    from replay.storage.cluster import one_cluster  # noqa: PLC0415

    scenario = Scenario(
        tuple(logs or ()),
        log_format=log_format or "",
        store=one_cluster(store, cluster_name),
        current=current,
        candidate=candidate,
        add=tuple(add or ()),
        cluster=cluster,
    ).resolved()
    return replace(
        scenario,
        version=version_of(kubernetes_version, (scenario.current, *scenario.candidate_paths, scenario.cluster)),
    )
