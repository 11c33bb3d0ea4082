"""Counts of the requests that a predicate does not select, by class, over a whole store."""

from __future__ import annotations

from replay.audit import queries
from replay.audit.part import RowPredicate
from replay.audit.store import Store


def unread_counts(
    store: Store, predicate: RowPredicate, within: RowPredicate | None = None
) -> list[tuple[str, str, str, str, int]]:
    """Return `(verb, group, resource, subresource, requests)` of successful requests that the predicate does not select."""
    query = queries.text("unread_requests").replace("$predicate", predicate.sql)
    query = query.replace("$within", within.sql if within else "true")
    return store.sql(query, *predicate.parameters, *(within.parameters if within else ())).rows()


def unmatched_by_kind(store: Store, predicate: RowPredicate) -> list[tuple[str, str, str, str, str, int]]:
    """Return `(group, resource, subresource, verb, level, requests)` of successful requests, without selected ones."""
    query = queries.text("unmatched_by_kind").replace("$predicate", predicate.sql)
    return store.sql(query, *predicate.parameters).rows()
