"""Affected workloads by policy: a section of the report, and rows as CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.compare.outcome import WORDS
from replay.compare.result import RunResult
from replay.compare.subject import Hit, hits
from replay.go.time import timestamp
from replay.report.render.document import Align, Column, Section, Table, Tone, inert, minute, number, plural

PAGE = 50
"""Number of rows that a page shows at a time."""
BETWEEN = "; "
"""Separator of several names in a CSV cell."""


def hits_section(result: RunResult, rows: int | None) -> Section | None:
    """Return the section with at most `rows` rows (all if None), or None if there are no findings."""
    policy_hits = hits(result.summary.cells) if rows != 0 else []
    if not policy_hits:
        return None
    columns = (
        Column("policy", Align.CODE),
        Column("what", Align.SHORT),
        Column("owner", Align.SHORT),
        Column("namespace", Align.SHORT),
        Column("workload", Align.CODE),
        Column("direct", Align.NUMBER),
        Column("consequences", Align.NUMBER),
        Column("users", Align.CODE, optional=True),
        Column("last seen, UTC", Align.SHORT, optional=True),
    )
    table = Table("hits-table", "", columns, tuple(map(_row, policy_hits[:rows])), len(policy_hits), page=PAGE)
    policies = {(each.key.outcome, each.key.policy) for each in policy_hits}
    lead = (
        f"{plural(len(policies), 'policy', 'policies')} and the workloads they affect ({plural(len(policy_hits), 'row')}). The owner is the "
        "value of the namespace's owner label. Consequences are requests that an earlier, different result affects."
    )
    return Section("hits", "Affected workloads by policy", lead, (table,), Tone.PLAIN)


def _row(hit: Hit) -> tuple[str, ...]:
    return (
        inert(hit.key.policy),
        WORDS[hit.key.outcome],
        inert(hit.key.owner),
        inert(hit.key.namespace) or "(cluster)",
        inert(hit.key.workload),
        number(hit.requests),
        number(hit.follows),
        inert(", ".join(sorted(hit.users))),
        minute(hit.last),
    )


def hit_values(result: RunResult) -> Iterator[dict[str, Any]]:
    """Yield every row as JSON, with the columns of `findings.csv`."""
    for hit in hits(result.summary.cells):
        origin = result.origin(hit.key.policy)
        yield {
            "outcome": hit.key.outcome.value,
            "policy": hit.key.policy,
            "origin": f"{origin.file}:{origin.line}" if origin is not None else "",
            "owner": hit.key.owner,
            "namespace": hit.key.namespace,
            "workload": hit.key.workload,
            "resources": sorted(hit.resources),
            "users": sorted(hit.users),
            "requests": hit.requests,
            "alone": hit.sole,
            "follow": hit.follows,
            "first": timestamp(hit.first),
            "last": timestamp(hit.last),
            "message": hit.message,
            "auditID": hit.example.audit_id if hit.example is not None else "",
        }


COLUMNS = (
    *("outcome", "policy", "origin", "owner", "namespace", "workload", "resources", "users", "requests", "alone"),
    *("follow", "first", "last", "message", "auditID"),
)


def hits_csv(result: RunResult) -> str:
    """Return `findings.csv`. No cell is a formula to a spreadsheet, see `csv_text`."""
    import polars as pl  # noqa: PLC0415 - only this format needs it

    from replay.report.render.rows import csv_text  # noqa: PLC0415

    numbers = {"requests", "alone", "follow"}
    schema = {name: pl.Int64 if name in numbers else pl.String for name in COLUMNS}
    rows = [
        {name: BETWEEN.join(value) if isinstance(value, list) else value for name, value in row.items()}
        for row in hit_values(result)
    ]
    return csv_text(pl.DataFrame(rows, schema=schema))
