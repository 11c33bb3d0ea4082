"""Period of a report, the part of a store in it, and the share of a store that a predicate excludes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replay.audit import queries
from replay.audit.engine import connect
from replay.audit.part import RowPredicate
from replay.audit.store import Store


class Period(NamedTuple):
    """A half-open span `[start, end)` in microseconds since the epoch."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Length of the span in microseconds."""
        return self.end - self.start

    @property
    def previous(self) -> Period:
        """The span of the same length that ends where this one starts."""
        return Period(self.start - self.length, self.start)

    def __contains__(self, instant: object) -> bool:
        """Return whether an instant is in the span."""
        return isinstance(instant, int) and self.start <= instant < self.end


def selected_counts(store: Store, predicates: Sequence[RowPredicate], period: Period) -> list[int]:
    """Return the number of requests of a period that each predicate selects, with one read of the store."""
    if not predicates:
        return []
    counts = ", ".join(f"count(*) filter (where coalesce({predicate.sql}, false))" for predicate in predicates)
    values = [value for predicate in predicates for value in predicate.parameters]
    with connect(store.temporary, threads=1) as connection:
        connection.execute(store.tables.views())
        query = queries.text("period_asked").replace("$counts", counts)
        row = connection.execute(query, [*values, period.start, period.end]).fetchone()
    return list(row or ())


def unread_counts(
    store: Store, predicate: RowPredicate, within: RowPredicate | None = None
) -> list[tuple[str, str, str, str, int]]:
    """Return `(verb, group, resource, subresource, requests)` of successful requests that the predicate does not select."""
    query = queries.text("unread_requests").replace("$predicate", predicate.sql)
    query = query.replace("$within", within.sql if within else "true")
    return store.rows(query, *predicate.parameters, *(within.parameters if within else ()))


def unmatched_by_kind(store: Store, predicate: RowPredicate) -> list[tuple[str, str, str, str, str, int]]:
    """Return `(group, resource, subresource, verb, level, requests)` of successful requests, without selected ones."""
    query = queries.text("unmatched_by_kind").replace("$predicate", predicate.sql)
    return store.rows(query, *predicate.parameters)
