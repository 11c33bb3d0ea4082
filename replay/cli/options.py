"""Options that several commands share, and the groups in which commands take them: log, manifests, selection, output, workers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from replay.cellib.version import NEWEST, OLDEST_MINOR
from replay.pipeline.project.format import DocumentFormat

if TYPE_CHECKING:
    from replay.json import JSON
    from replay.pipeline.options import Focus
    from replay.pipeline.replay.workers import Fleet
    from replay.pipeline.scenario import Scenario
    from replay.report.render.document import Document

T = TypeVar("T")


Logs = Annotated[
    list[str] | None,
    typer.Argument(
        envvar="REPLAY_LOGS",
        help="Audit logs: files, directories, globs, URLs (s3://, gs://, az://, https://) or - for standard input. Or one scenario "
        "directory.",
    ),
]
LogFormat = Annotated[
    str | None, typer.Option("--from", metavar="FORMAT", help="Format of the logs, if it is not recognized.")
]
Store = Annotated[
    str | None,
    typer.Option(
        envvar="REPLAY_STORE",
        metavar="DIR|URL",
        help="Store of audit logs: a directory or a bucket URL. With LOG, new lines are added to it first.",
    ),
]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster-name",
        metavar="NAME",
        envvar="REPLAY_CLUSTER_NAME",
        help="Cluster to read from a multi-cluster store. Patterns are allowed in lookup, report and sql.",
    ),
]
CurrentSet = Annotated[
    Path | None,
    typer.Option(
        envvar="REPLAY_CURRENT",
        help="Baseline: the manifests in force, as a directory or an AdmissionConfiguration file.",
    ),
]
CandidateSet = Annotated[Path | None, typer.Option(envvar="REPLAY_CANDIDATE", help="Candidate: the planned manifests.")]
AddedPolicies = Annotated[
    list[Path] | None,
    typer.Option("--add", help="Planned policies on top of the baseline: a file or a directory. Repeatable."),
]
AppliedBundles = Annotated[
    list[Path] | None,
    typer.Option(
        "--apply",
        metavar="PATH",
        help="A bundle on top of the baseline, as `kubectl apply` would have it: a file, a directory with its folders, or - for "
        "standard input. Repeatable.",
    ),
]
PruneSelector = Annotated[
    str,
    typer.Option(
        "--prune",
        metavar="SELECTOR",
        help="With --apply: take away what is there with these labels and not in the bundle.",
    ),
]
ClusterSnapshot = Annotated[
    Path | None, typer.Option(envvar="REPLAY_CLUSTER", help="Snapshot of cluster objects (see `replay snapshot`).")
]
MinorVersion = Annotated[
    str | None,
    typer.Option(
        "--kubernetes-version",
        envvar="REPLAY_KUBERNETES_VERSION",
        help=f"Minor version of the API server, 1.{OLDEST_MINOR} to {NEWEST}. Default: that of the sets, else {NEWEST} (kcp: 1.36).",
    ),
]
CurrentVersion = Annotated[
    str | None,
    typer.Option(help="Minor version of the API server that wrote the log, where an upgrade is rehearsed."),
]
CandidateVersion = Annotated[
    str | None,
    typer.Option(help="Minor version after the upgrade. Without --candidate or --add, the manifests stay the same."),
]
DownWebhooks = Annotated[
    str | None,
    typer.Option(
        "--down",
        metavar="NAME[,NAME]",
        help="Webhooks, or configurations, of the candidate that do not answer. Without --candidate or --add, the manifests stay the same.",
    ),
]
CurrentDownWebhooks = Annotated[
    str | None,
    typer.Option(
        "--current-down", metavar="NAME[,NAME]", help="The same for the baseline: it was down when the log was written."
    ),
]
MinorVersions = Annotated[
    str | None,
    typer.Option("--versions", metavar="VERSION,...", help="Minor versions to compare, such as 1.33,1.37."),
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OutputFormat = Annotated[DocumentFormat, typer.Option("--format", help="Output format.")]
TimeZone = Annotated[
    str | None, typer.Option("--tz", envvar="REPLAY_TZ", help="Time zone of printed times, such as Europe/Berlin.")
]
PeriodStart = Annotated[
    str | None,
    typer.Option(help="Start: a duration before the last event (7d, 12h, 30m) or a time (2026-11-21T03:00Z)."),
]
PeriodEnd = Annotated[
    str | None, typer.Option("--until", "--to", help="End, in the same form. Default: the last event.")
]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace; * matches any text.")]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", "-P", help="Only this policy: its name, a part of it, or a pattern with *. Repeatable."),
]
AcceptanceFile = Annotated[
    Path | None,
    typer.Option(envvar="REPLAY_ACCEPTED", help="File of intended denials (see `replay accept`)."),
]
AuditID = Annotated[str, typer.Argument(help="Audit ID of the request (see `replay lookup`).")]
CollectionItem = Annotated[int, typer.Option(min=0, help="Number of the object in a deletecollection.")]
RejectsFile = Annotated[
    Path | None, typer.Option(help="Write every unusable line of the log to this file, with the reason.")
]
OutputFile = Annotated[Path | None, typer.Option(help="Write the output to this file; - is standard output.")]
Namespaces = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", help="Only requests in this namespace; * matches any text. Repeatable."),
]
Users = Annotated[list[str] | None, typer.Option(help="Only requests of this user; * matches any text. Repeatable.")]
RetentionLength = Annotated[str, typer.Option(help="Keep requests of this duration before the last one: 30d, 12h, 4w.")]
RetentionSize = Annotated[str, typer.Option(help="Keep the newest ingests up to this size on disk: 500MB, 50GB.")]
OwnerLabel = Annotated[str, typer.Option(envvar="REPLAY_OWNER_LABEL", help="Namespace label that names the owner.")]
FullReport = Annotated[bool, typer.Option("--full", help="Print the full report instead of the first screen.")]
Redaction = Annotated[bool, typer.Option(help="Hide Secret data and tokens in the output.")]
Workspaces = Annotated[
    list[str] | None,
    typer.Option(
        "--workspace",
        "-w",
        help="kcp: only requests to this workspace, given by its path; * matches any text. Repeatable.",
    ),
]
AuthorizationMode = Annotated[
    str | None,
    typer.Option(
        help="Authorizers of a set without authorization.yaml: modes such as `Node,RBAC`, or a kube-apiserver manifest."
    ),
]
AuthorizerWebhooks = Annotated[
    list[str] | None,
    typer.Option(
        "--webhook",
        metavar="NAME=FILE|NAME=URL",
        help="Answers of an authorization webhook: a file of recorded SubjectAccessReviews, or a URL to call. Repeatable.",
    ),
]
Workers = Annotated[int, typer.Option(min=0, envvar="REPLAY_WORKERS", help="Number of processes; 0 is one per core.")]


class WorkerKind(StrEnum):
    """Kind of worker processes."""

    LOCAL = "local"
    DASK = "dask"


FleetEngine = Annotated[
    WorkerKind | None,
    typer.Option(
        "--engine",
        envvar="REPLAY_ENGINE",
        help="Where to run: processes of this machine or Dask workers (docs/dask.md). Default: dask if --scheduler is set.",
        show_default=False,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        envvar="REPLAY_SCHEDULER",
        help="Dask scheduler, tcp://HOST:8786. Without it, `--engine dask` starts --workers on this machine.",
    ),
]


class OptionGroup(Struct, frozen=True):
    """Options that commands take together. Each field is one option of the command line."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command as Typer reads it: one option for each field of its groups, at the place of the group."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, OptionGroup)}
    options: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        group = groups.get(parameter.name)
        options += _options(group) if group else [parameter.replace(annotation=hints[parameter.name])]

    @wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    call.__signature__ = Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _options(group: type[OptionGroup]) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])


class LogSource(OptionGroup, frozen=True):
    """A log or a store. The groups below add the manifests that a command reads with it."""

    logs: Logs = None
    log_format: LogFormat = None
    store: Store = None
    cluster_name: ClusterName = None

    def scenario(self) -> Scenario:
        """Return the scenario of the options. Raises ReplayError for an unknown version or cluster."""
        return _scenario(**asdict(self))


class Baseline(LogSource, frozen=True):
    """A log and the manifests in force."""

    current: CurrentSet = None
    cluster: ClusterSnapshot = None
    kubernetes_version: MinorVersion = None


class BothSets(LogSource, frozen=True):
    """A log and both sets."""

    current: CurrentSet = None
    candidate: CandidateSet = None
    cluster: ClusterSnapshot = None
    kubernetes_version: MinorVersion = None


class PlannedSets(LogSource, frozen=True):
    """A log and both sets, the candidate perhaps on top of the baseline."""

    current: CurrentSet = None
    candidate: CandidateSet = None
    add: AddedPolicies = None
    cluster: ClusterSnapshot = None
    kubernetes_version: MinorVersion = None


class Rehearsal(LogSource, frozen=True):
    """A log and all that a rollout can change: manifests, the server's version, and webhooks that are down."""

    current: CurrentSet = None
    candidate: CandidateSet = None
    add: AddedPolicies = None
    apply: AppliedBundles = None
    prune: PruneSelector = ""
    cluster: ClusterSnapshot = None
    kubernetes_version: MinorVersion = None
    current_version: CurrentVersion = None
    candidate_version: CandidateVersion = None
    down: DownWebhooks = None
    current_down: CurrentDownWebhooks = None


class Selection(OptionGroup, frozen=True):
    """Which requests of the log a command is about."""

    namespace: Namespaces = None
    user: Users = None
    since: PeriodStart = None
    until: PeriodEnd = None

    def focus(
        self, *, policies: Sequence[str] | None = None, workspaces: Sequence[str] | None = None, **others: Any
    ) -> Focus:
        """Return the selection of a run, with what a command takes beside the group."""
        from replay.pipeline.options import Focus

        return Focus(
            namespaces=tuple(self.namespace or ()),
            users=tuple(self.user or ()),
            since=self.since,
            until=self.until,
            policies=tuple(policies or ()),
            workspaces=tuple(workspaces or ()),
            **others,
        )


class Printed(OptionGroup, frozen=True):
    """How a result is printed."""

    output: OutputFormat = DocumentFormat.TERMINAL
    as_json: JsonOutput = False

    @property
    def is_json(self) -> bool:
        """Return whether one of both options asks for JSON."""
        return self.as_json or self.output is DocumentFormat.JSON

    def show(
        self,
        result: T,
        json_of: Callable[[T], JSON],
        document_of: Callable[[T], Document],
        screen_of: Callable[[T], Document] | None = None,
        *,
        indent: int = 1,
    ) -> None:
        """Print a result: as JSON, or its document. `screen_of` makes the first screen, for a terminal."""
        from replay.json import json_document
        from replay.pipeline.output import show

        if self.is_json:
            sys.stdout.write(json_document(json_of(result), indent))
        else:
            show(document_of(result), self.output, screen_of(result) if screen_of is not None else None)


class Machines(OptionGroup, frozen=True):
    """Where a command works."""

    workers: Workers = 0
    engine: FleetEngine = None
    scheduler: Scheduler = None

    def fleet(self) -> AbstractContextManager[Fleet | None]:
        """Yield the fleet that the options name, None for processes of this machine. Raises ReplayError if there is none."""
        return fleet_of(self.engine, self.scheduler, self.workers)


def fleet_of(
    engine: WorkerKind | None, scheduler: str | None, workers: int = 0
) -> AbstractContextManager[Fleet | None]:
    """Yield the fleet that options name. Raises ReplayError if there is none."""
    if engine is WorkerKind.LOCAL or (engine is None and not scheduler):
        return nullcontext()
    from replay.pipeline.fleet.dask import dask_fleet

    return dask_fleet(scheduler or "", workers)


def _scenario(
    logs: Sequence[str] | None,
    log_format: str | None,
    store: str | None,
    cluster_name: str | None,
    kubernetes_version: str | None = None,
    current_version: str | None = None,
    candidate_version: str | None = None,
    add: Sequence[Path] | None = None,
    apply: Sequence[Path] | None = None,
    down: str | None = None,
    current_down: str | None = None,
    **sets: Any,
) -> Scenario:
    from replay.errors import ReplayError
    from replay.pipeline.scenario import STDIN, Scenario
    from replay.pipeline.version import versions_of_sides
    from replay.storage.location import one_cluster

    if STDIN in (logs or ()) and Path(STDIN) in (apply or ()):
        raise ReplayError("standard input holds the log or a bundle, not both: give one of them as a file", path=STDIN)
    asked = versions_of_sides(current_version, candidate_version, kubernetes_version)
    scenario = Scenario(
        tuple(logs or ()),
        log_format=log_format or "",
        store=one_cluster(store, cluster_name),
        add=tuple(add or ()),
        apply=tuple(apply or ()),
        version=asked.current,
        candidate_version=asked.candidate if asked.differ else None,
        current_down=_names(current_down),
        down=_names(down),
        **sets,
    ).resolved()
    sides = (scenario.current, scenario.candidate)  # none stands in for another: the snapshot is no set
    versions = versions_of_sides(current_version, candidate_version, kubernetes_version, (*sides, *scenario.set_paths))
    return replace(
        scenario, version=versions.current, candidate_version=versions.candidate if versions.differ else None
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in (text or "").split(","))))
