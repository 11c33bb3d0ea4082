"""The requests of a store that a predicate leaves out: counted, or read without their bodies."""

from __future__ import annotations

from collections.abc import Iterator

from replay.audit import queries
from replay.audit.event import RequestRecord
from replay.audit.part import Predicate, StorePart, connect, engine, numbered_records
from replay.audit.store import Store


def unselected(part: StorePart, predicate: Predicate, *, only_failed: bool) -> Iterator[RequestRecord]:
    """The requests of a part that admission saw and the predicate does not select; their bodies are None."""
    if not part.tables.rows:
        return
    with engine(part.temporary).cursor() as connection:
        connection.execute(part.tables.views())
        query = queries.text("unselected").replace("$predicate", predicate.sql)
        query = query.replace("$only_failed", "true" if only_failed else "false")
        for rows in numbered_records(connection.sql(query, params=list(predicate.parameters))):
            yield from (record for _, record in rows)


def admission_counts(store: Store, predicate: Predicate) -> list[tuple[bool, bool, int]]:
    """`(selected, succeeded, requests)` for the requests of a whole store that admission saw."""
    with connect(str(store.directory), threads=1) as connection:
        connection.execute(store.tables.views())
        query = queries.text("admission_requests").replace("$predicate", predicate.sql)
        return connection.execute(query, list(predicate.parameters)).fetchall()


def unmatched_by_kind(store: Store, predicate: Predicate) -> list[tuple[str, str, str, str, str, int]]:
    """`(group, resource, subresource, verb, level, requests)` of what succeeded and the predicate does not select."""
    with connect(str(store.directory), threads=1) as connection:
        connection.execute(store.tables.views())
        query = queries.text("unmatched_by_kind").replace("$predicate", predicate.sql)
        return connection.execute(query, list(predicate.parameters)).fetchall()
