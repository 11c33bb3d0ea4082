"""Commands about stores of audit logs: `replay ingest`, `sql`, `store info` and `store prune`."""

from __future__ import annotations

import sys
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from replay.cli.command import Command
from replay.cli.options import (
    FleetEngine,
    JsonOutput,
    LogFormat,
    LogSource,
    Printed,
    Redaction,
    RejectsFile,
    RetentionLength,
    RetentionSize,
    Scheduler,
    TimeZone,
    WorkerKind,
    fleet_of,
    with_groups,
)
from replay.json import json_document

if TYPE_CHECKING:
    from replay.audit.live.tls import ServerTls
    from replay.audit.segment import IngestReport
    from replay.pipeline.live import SegmentLimits
    from replay.pipeline.replay.workers import Fleet
    from replay.pipeline.scenario import Scenario
    from replay.pipeline.store import Retention
if TYPE_CHECKING:
    from polars import DataFrame


INGEST_EPILOG = (
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


SQL_EPILOG = (
    "Examples: replay sql decisions_by_policy --param action=deny --store STORE\n\n"
    "replay sql 'select verb, count(*) from request group by all' audit.jsonl.zst --format csv"
)


class SqlFormat(StrEnum):
    """Output format of rows."""

    TERMINAL = "terminal"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


@with_groups
def sql(
    *,
    query: Annotated[str | None, typer.Argument(help="Name of a query, an SQL file, or a SELECT statement.")] = None,
    source: LogSource,
    param: Annotated[list[str] | None, typer.Option(help="Parameter of the query. Repeatable.")] = None,
    output: Annotated[SqlFormat, typer.Option("--format", help="Output format.")] = SqlFormat.TERMINAL,
    out: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
    list_queries: Annotated[bool, typer.Option("--list", help="List the available queries.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    tz: TimeZone = None,
    redact: Redaction = True,
) -> None:
    """Query a log or a store with SQL.

    The views are `request` (one row per request) and `decision` (one row per action of admission); see queries/README.md. Only SELECT
    statements run, and they can read only the store.
    """
    from replay.cli.progress import progress_on
    from replay.errors import ReplayError
    from replay.pipeline.forensic.sql import ask_clusters, question_names, run_query
    from replay.pipeline.options import time_zone
    from replay.report.render.rows import csv_text, json_text, print_rows
    from replay.report.render.terminal import stdout_console
    from replay.storage.location import is_pattern, matching_clusters

    if list_queries or query is None:
        _print_list(question_names())
        return
    pairs = [each.partition("=") for each in param or []]
    wrong = next((name for name, sign, _ in pairs if not sign), None)
    if wrong is not None:
        raise ReplayError(f"`--param {wrong}` has no value: write --param {wrong}=…")
    zone, parameters = time_zone(tz), {k: v for k, _, v in pairs}
    store, pattern = source.store, source.cluster_name
    several = matching_clusters(store, pattern) if store and pattern and is_pattern(pattern) else {}
    if several and source.logs:
        raise ReplayError("a log is of one cluster: leave it out, or name the cluster", path="--cluster-name")
    with progress_on() as progress:
        if several:
            rows = ask_clusters(several, query, parameters, progress, redact=redact)
        else:
            rows = run_query(source.scenario(), query, parameters, progress, redact=redact)
    form = SqlFormat.JSON if as_json else output
    if form is SqlFormat.PARQUET:
        if out is None and sys.stdout.isatty():
            raise ReplayError("Parquet is not text: give --out FILE")
        _write_parquet(rows, out)
    elif form is SqlFormat.TERMINAL and out is None:
        print_rows(rows, stdout_console(), zone)
    else:
        text = json_text(rows, zone) if form is SqlFormat.JSON else csv_text(rows, zone)
        _write(text, out)


def _write_parquet(rows: DataFrame, out: Path | None) -> None:
    """Write Parquet through memory, because Polars has its own errors for a closed pipe and a full disk."""
    content = BytesIO()
    rows.write_parquet(content)
    if out is None:
        sys.stdout.buffer.write(content.getbuffer())
    else:
        out.write_bytes(content.getbuffer())


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


def _print_list(names: list[str]) -> None:
    from replay.audit.queries import header

    for name in names:
        sys.stdout.write(f"{name}\n")
        sys.stdout.writelines(f"    {line}\n" for line in header(name).splitlines())


INFO_EPILOG = "Example: replay store info audit.store\n\nExit code: 0, or 2 where there is no store that can be read."
PRUNE_EPILOG = (
    "Example: replay store prune audit.store --keep 30d\n\n"
    "Example: replay store prune audit.store --before 2026-11-01T00:00:00Z\n\n"
    "Exit code: 0 what was asked is forgotten, if anything; 2 or more an error."
)

Directory = Annotated[
    str, typer.Argument(help="Store: a directory, or the URL of a bucket and prefix.", metavar="DIR|URL")
]

store = typer.Typer(no_args_is_help=True, help="Look at a store of audit logs, or make it smaller.")


@store.command("info", cls=Command, epilog=INFO_EPILOG)
@with_groups
def info(*, store_directory: Directory, printed: Printed) -> None:
    """What is in this store: which files, how many requests, from when to when, how large?"""
    from replay.audit.store import store_info
    from replay.report.store_report import info_document, info_json

    printed.show(store_info(store_directory), info_json, info_document, indent=2)


@store.command("prune", cls=Command, epilog=PRUNE_EPILOG)
def prune(
    store_directory: Directory,
    start: Annotated[
        str,
        typer.Option(
            "--before", help="Forget ingests whose last request was before this time, such as 2026-11-01 (UTC)."
        ),
    ] = "",
    keep: RetentionLength = "",
    keep_size: RetentionSize = "",
    as_json: JsonOutput = False,
) -> None:
    """Forget the oldest ingests of a store; an ingest is forgotten whole, or not at all."""
    from replay.errors import ReplayError
    from replay.pipeline.store import Retention
    from replay.pipeline.store import prune as forget
    from replay.report.render.document import plural

    if not (start or keep or keep_size):
        raise ReplayError("what to forget is not clear: give --before, --keep or --keep-size")
    pruned = forget(store_directory, Retention(start, keep, keep_size))
    if as_json:
        counts = {"removed": pruned.removed, "kept": pruned.left, "requests": pruned.requests}
        sys.stdout.write(json_document(counts, indent=2))
    else:
        rest = f"{plural(pruned.left, 'ingest')} with {plural(pruned.requests, 'request')} left"
        sys.stdout.write(f"{plural(pruned.removed, 'ingest')} forgotten, {rest}\n")
