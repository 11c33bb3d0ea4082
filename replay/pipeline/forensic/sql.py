"""`replay sql` as a function: runs a query of `queries/`, of a file or of the command line on a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from replay.audit import queries
from replay.audit.ingest import Progress
from replay.audit.reader import StoreReader
from replay.errors import ReplayError
from replay.kube.redact import redacted_text
from replay.on_demand import pl
from replay.pipeline.log import store_of
from replay.pipeline.scenario import Scenario
from replay.storage.scratch import scratch

_BEGINNINGS = ("select", "with", "from", "explain", "describe", "summarize", "values", "(", "show", "--")


def question_names() -> list[str]:
    """Return the names of the queries that have an example for `replay sql`."""
    return [name for name in queries.names() if "replay sql " in queries.header(name)]


def query_text(query: str) -> str:
    """Return the SQL of a query's name, a file or a text. Raise ReplayError with near matches."""
    if query in queries.names():
        return queries.text(query)
    path = Path(query)
    if query.endswith(".sql") or (len(query) < 200 and path.is_file()):
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ReplayError(f"the query cannot be read: {error}", path=query) from error
    if query.lstrip().lower().startswith(_BEGINNINGS) or " " in query.strip():
        return query
    near = get_close_matches(query, question_names(), n=3)
    hint = f"; did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""
    raise ReplayError(f"no query `{query}`{hint or ': `replay sql --list` shows all'}")


def run_query(
    scenario: Scenario, query: str, parameters: Mapping[str, str], progress: Progress, *, redact: bool = True
) -> pl.DataFrame:
    """Return the rows of a query. Raise ReplayError if it is no SELECT or fails."""
    text = query_text(query)
    with store_of(scenario, progress) as store, scratch() as temporary:
        reader = StoreReader(store.tables, str(temporary), threads=os.cpu_count() or 1, redact=redact)
        try:
            rows = reader.read(text, parameters)
        finally:
            reader.close()
    return _redacted(rows) if redact else rows


def ask_clusters(
    locations: Mapping[str, str], query: str, parameters: Mapping[str, str], progress: Progress, *, redact: bool = True
) -> pl.DataFrame:
    """Run a query on each of several clusters; return the rows with `cluster` as first column."""
    answers = [
        run_query(Scenario(store=location), query, parameters, progress, redact=redact).select(
            pl.lit(name).alias("cluster"), pl.all()
        )
        for name, location in locations.items()
    ]
    return pl.concat(answers, how="vertical_relaxed")


def _redacted(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without bearer tokens in their texts."""
    texts = [name for name, kind in rows.schema.items() if kind == pl.String]
    has_tokens = [name for name in texts if rows[name].str.contains("eyJ", literal=True).any()]
    return rows.with_columns(pl.col(name).map_elements(redacted_text, return_dtype=pl.String) for name in has_tokens)
