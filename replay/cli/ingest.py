"""`replay ingest`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from replay.cli.options import (
    FleetEngine,
    JsonOutput,
    LogFormat,
    RejectsFile,
    RetentionLength,
    RetentionSize,
    Scheduler,
    WorkerKind,
    fleet_of,
)
from replay.json import json_document

if TYPE_CHECKING:
    from replay.audit.live.tls import ServerTls
    from replay.audit.segment import IngestReport
    from replay.pipeline.live import SegmentLimits
    from replay.pipeline.replay.workers import Fleet
    from replay.pipeline.scenario import Scenario
    from replay.pipeline.store import Retention

EPILOG = (
    "Example: replay ingest /var/log/kubernetes/audit --store audit.store\n\n"
    "Example: replay ingest /var/log/kubernetes/audit --store audit.store --follow --keep 30d\n\n"
    "Example: replay ingest --listen 127.0.0.1:8443 --store audit.store\n\n"
    "Then: replay store info audit.store\n\n"
    "Exit code: 0 the logs are in the store, 2 or more an error that leaves the store unchanged. --follow and --listen stop with 0 on "
    "Ctrl-C or SIGTERM, after they have written everything that they received."
)


def ingest(
    logs: Annotated[
        list[str] | None,
        typer.Argument(help="Audit logs: files, directories, globs, URLs or - for standard input.", metavar="LOG"),
    ] = None,
    *,
    log_format: LogFormat = None,
    store: Annotated[
        str,
        typer.Option(
            metavar="DIR|URL", help="Store to write: a directory or a bucket URL. It is created if it does not exist."
        ),
    ],
    cluster_name: Annotated[
        str | None,
        typer.Option(
            "--cluster-name",
            metavar="NAME",
            envvar="REPLAY_CLUSTER_NAME",
            help="Cluster of the logs, for a multi-cluster store.",
        ),
    ] = None,
    rejects: RejectsFile = None,
    engine: FleetEngine = None,
    scheduler: Scheduler = None,
    as_json: JsonOutput = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep reading new lines of the logs, across rotation.")
    ] = False,
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Receive events as the audit webhook backend of API servers (docs/follow.md), instead of reading LOG.",
        ),
    ] = "",
    tls_cert_file: Annotated[Path | None, typer.Option(help="With --listen: certificate (PEM).")] = None,
    tls_private_key_file: Annotated[Path | None, typer.Option(help="With --listen: private key (PEM).")] = None,
    client_ca_file: Annotated[
        Path | None, typer.Option(help="With --listen: CA of the client certificates (PEM).")
    ] = None,
    flush_size: Annotated[str, typer.Option(help="Write to the store after this many new bytes.")] = "256MB",
    flush_age: Annotated[str, typer.Option(help="Write to the store after this time: 30s, 5m, 1h.")] = "5m",
    keep: RetentionLength = "",
    keep_size: RetentionSize = "",
) -> None:
    """Add audit logs to a store, so that later commands need not read them again.

    Skips files whose content is already in the store. Counts unusable lines by reason. With --follow or --listen the command runs
    until you stop it, and --keep and --keep-size remove old requests.
    """
    from replay.audit.live.tls import ServerTls
    from replay.pipeline.live import SegmentLimits
    from replay.pipeline.scenario import Scenario
    from replay.pipeline.store import Retention, partition
    from replay.report.render.terminal import print_document, stdout_console
    from replay.report.store_report import ingest_document, ingest_json

    request = Scenario(tuple(logs or ()), store=store, log_format=log_format or "")
    certificates = (tls_cert_file, tls_private_key_file, client_ca_file)
    _require_one_way(request, follow, listen, engine, any(certificates), bool(keep or keep_size))
    place = partition(store, cluster_name)
    scenario = replace(request, store=place)
    if follow or listen:
        pace, retention = SegmentLimits.parse(flush_size, flush_age), Retention(keep=keep, size=keep_size)
        report, requests = _live(scenario, listen, ServerTls(*certificates), pace, retention, rejects)
    else:
        with fleet_of(engine, scheduler) as fleet:
            report, requests = _ingest_once(scenario, rejects, fleet)
    if as_json:
        sys.stdout.write(json_document(ingest_json(report, place, requests), indent=2))
    else:
        print_document(ingest_document(report, place, requests), stdout_console())


def _require_one_way(
    scenario: Scenario, follow: bool, listen: str, engine: WorkerKind | None, has_certificates: bool, forgets: bool
) -> None:
    """Raise ReplayError for options that do not go together."""
    from replay.errors import ReplayError
    from replay.storage.location import is_bucket

    if listen and is_bucket(scenario.store or ""):
        raise ReplayError("what is received is kept on a disk first: listen with a store in a directory")
    if listen and (follow or scenario.logs or scenario.log_format):
        raise ReplayError("--listen stands for the log: leave out LOG, --from and --follow")
    if not listen and not scenario.logs:
        raise ReplayError("no log: give log files, or --listen")
    if not listen and has_certificates:
        raise ReplayError("certificates are for --listen")
    if not (listen or follow) and forgets:
        raise ReplayError("--keep and --keep-size go with --follow and --listen: `replay store prune` forgets at once")
    if (listen or follow) and engine is WorkerKind.DASK:
        raise ReplayError("a live log is read by one process: leave it out", path="--engine")


def _ingest_once(scenario: Scenario, rejects: Path | None, fleet: Fleet | None) -> tuple[IngestReport, int]:
    from replay.cli.progress import progress_on
    from replay.pipeline.store import fill

    with progress_on() as progress:
        return fill(scenario, rejects, progress, fleet)


def _live(
    scenario: Scenario, listen: str, tls: ServerTls, pace: SegmentLimits, retention: Retention, rejects: Path | None
) -> tuple[IngestReport, int]:
    from replay.pipeline.live import Filling, ended_by_signals

    def tell(text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    with ended_by_signals() as is_ended:
        filling = Filling(scenario, pace, retention, rejects, tell, is_ended)
        return filling.listen(listen, tls) if listen else filling.follow()
