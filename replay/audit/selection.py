"""What of a store a predicate leaves out, counted."""

from __future__ import annotations

from replay.audit import queries
from replay.audit.engine import connect
from replay.audit.part import RowPredicate
from replay.audit.store import Store


def unread_counts(
    store: Store, predicate: RowPredicate, within: RowPredicate | None = None
) -> list[tuple[str, str, str, str, int]]:
    """`(verb, group, resource, subresource, requests)` of what succeeded and the predicate does not select."""
    with connect(store.temporary, threads=1) as connection:
        connection.execute(store.tables.views())
        query = queries.text("unread_requests").replace("$predicate", predicate.sql)
        query = query.replace("$within", within.sql if within else "true")
        return connection.execute(query, [*predicate.parameters, *(within.parameters if within else ())]).fetchall()


def unmatched_by_kind(store: Store, predicate: RowPredicate) -> list[tuple[str, str, str, str, str, int]]:
    """`(group, resource, subresource, verb, level, requests)` of what succeeded and the predicate does not select."""
    with connect(store.temporary, threads=1) as connection:
        connection.execute(store.tables.views())
        query = queries.text("unmatched_by_kind").replace("$predicate", predicate.sql)
        return connection.execute(query, list(predicate.parameters)).fetchall()
