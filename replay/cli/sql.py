"""`replay sql`."""

from __future__ import annotations

import sys
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.options import LogSource, Redaction, TimeZone, with_groups

if TYPE_CHECKING:
    from polars import DataFrame


EPILOG = (
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
    from replay.pipeline.period import time_zone
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
