"""`replay ingest`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from replay.cli.fleet import Engine, FleetEngine, Scheduler, fleet_of
from replay.cli.options import JsonOutput, LogFormat, RetentionLength, RetentionSize

if TYPE_CHECKING:
    from replay.audit.ingest_report import IngestReport
    from replay.audit.live.tls import ServerTls
    from replay.pipeline.live.filling import Pace
    from replay.pipeline.replay.workers import Fleet
    from replay.pipeline.scenario import Scenario
    from replay.pipeline.store import Retention

EPILOG = (
    "Example: replay ingest /var/log/kubernetes/audit --store audit.store\n\n"
    "Example: replay ingest /var/log/kubernetes/audit --store audit.store --follow --keep 30d\n\n"
    "Example: replay ingest --listen 127.0.0.1:8443 --store audit.store\n\n"
    "Then: replay store info audit.store\n\n"
    "Exit code: 0 the logs are in the store, 2 or more an error; the store is then as it was. --follow and --listen end with 0 by "
    "Ctrl-C or SIGTERM, after what they have taken is in the store."
)


def ingest(
    logs: Annotated[
        list[str] | None,
        typer.Argument(help="Audit logs: files, directories, globs, URLs, - for standard input.", metavar="LOG..."),
    ] = None,
    *,
    log_format: LogFormat = None,
    store: Annotated[
        str,
        typer.Option(
            metavar="DIR|URL", help="The store; it is made if it is not there. s3://, gs:// and az:// are buckets."
        ),
    ],
    cluster_name: Annotated[
        str | None,
        typer.Option(
            "--cluster-name",
            metavar="NAME",
            envvar="REPLAY_CLUSTER_NAME",
            help="The cluster that the logs are of, where the store has several.",
        ),
    ] = None,
    rejects: Annotated[
        Path | None, typer.Option(help="Write every line that could not be used, with the reason.")
    ] = None,
    engine: FleetEngine = None,
    scheduler: Scheduler = None,
    as_json: JsonOutput = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what is written to the logs, also when they rotate.")
    ] = False,
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Be the audit webhook backend of API servers (docs/follow.md), instead of LOG."
        ),
    ] = "",
    tls_cert_file: Annotated[Path | None, typer.Option(help="With --listen: the certificate, in PEM.")] = None,
    tls_private_key_file: Annotated[Path | None, typer.Option(help="With --listen: its private key, in PEM.")] = None,
    client_ca_file: Annotated[
        Path | None, typer.Option(help="With --listen: who signs the certificates that clients must have, in PEM.")
    ] = None,
    flush_size: Annotated[str, typer.Option(help="Write to the store when so much is new.")] = "256MB",
    flush_age: Annotated[str, typer.Option(help="Write to the store when what is new is so old: 30s, 5m, 1h.")] = "5m",
    keep: RetentionLength = "",
    keep_size: RetentionSize = "",
) -> None:
    """Keep audit logs, so that the next question need not read them again.

    Files that the store knows by their content are skipped, whatever their name. What is rejected is counted, with the reason.
    With --follow or --listen this goes on until it is ended, and --keep and --keep-size forget what is old meanwhile.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.audit.live.tls import ServerTls  # noqa: PLC0415
    from replay.pipeline.live.filling import Pace  # noqa: PLC0415
    from replay.pipeline.scenario import Scenario  # noqa: PLC0415
    from replay.pipeline.store import Retention, partition  # noqa: PLC0415
    from replay.report.render.terminal import print_document  # noqa: PLC0415
    from replay.report.store_report import ingest_document, ingest_json  # noqa: PLC0415

    request = Scenario(tuple(logs or ()), store=store, log_format=log_format or "")
    certificates = (tls_cert_file, tls_private_key_file, client_ca_file)
    _require_one_way(request, follow, listen, engine, any(certificates), bool(keep or keep_size))
    place = partition(store, cluster_name)
    scenario = replace(request, store=place)
    if follow or listen:
        pace, retention = Pace.parse(flush_size, flush_age), Retention(keep=keep, size=keep_size)
        report, requests = _live(scenario, listen, ServerTls(*certificates), pace, retention, rejects)
    else:
        with fleet_of(engine, scheduler) as fleet:
            report, requests = _once(scenario, rejects, fleet)
    if as_json:
        sys.stdout.write(json.dumps(ingest_json(report, place, requests), indent=2, ensure_ascii=False) + "\n")
    else:
        print_document(ingest_document(report, place, requests), Console(highlight=False))


def _require_one_way(
    scenario: Scenario, follow: bool, listen: str, engine: Engine | None, has_certificates: bool, forgets: bool
) -> None:
    """Raise ReplayError for options that do not go together."""
    from replay.errors import ReplayError  # noqa: PLC0415 - `--help` must not pay for it
    from replay.storage.location import is_url  # noqa: PLC0415

    if listen and is_url(scenario.store or ""):
        raise ReplayError("what is received is kept on a disk first: listen with a store in a directory")
    if listen and (follow or scenario.logs or scenario.log_format):
        raise ReplayError("--listen stands for the log: leave out LOG, --from and --follow")
    if not listen and not scenario.logs:
        raise ReplayError("no log: give log files, or --listen")
    if not listen and has_certificates:
        raise ReplayError("certificates are for --listen")
    if not (listen or follow) and forgets:
        raise ReplayError("--keep and --keep-size go with --follow and --listen: `replay store prune` forgets at once")
    if (listen or follow) and engine is Engine.DASK:
        raise ReplayError("a live log is read by one process: leave it out", path="--engine")


def _once(scenario: Scenario, rejects: Path | None, fleet: Fleet | None) -> tuple[IngestReport, int]:
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.store import fill  # noqa: PLC0415

    with progress_on(Console(stderr=True)) as progress:
        return fill(scenario, rejects, progress, fleet)


def _live(
    scenario: Scenario, listen: str, tls: ServerTls, pace: Pace, retention: Retention, rejects: Path | None
) -> tuple[IngestReport, int]:
    from replay.pipeline.live.ending import ended_by_signals  # noqa: PLC0415 - `--help` must not pay for it
    from replay.pipeline.live.filling import Filling  # noqa: PLC0415

    def told(text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    with ended_by_signals() as is_ended:
        filling = Filling(scenario, pace, retention, rejects, told, is_ended)
        return filling.listen(listen, tls) if listen else filling.follow()
