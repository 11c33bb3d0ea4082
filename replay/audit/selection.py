"""The requests of a store that a predicate leaves out: counted, or read without their bodies."""

from __future__ import annotations

from collections.abc import Iterator

from replay.audit import queries
from replay.audit.arrow import frame_from_relation
from replay.audit.engine import connect
from replay.audit.event import RequestRecord
from replay.audit.part import RowPredicate, StorePart, engine
from replay.audit.store import Store


def unselected(
    part: StorePart, predicate: RowPredicate, within: RowPredicate | None = None, *, only_failed: bool
) -> Iterator[RequestRecord]:
    """The requests of a part that admission saw and the predicate does not select, as `StorePart.bare_records` reads them.

    `within` is another predicate, which does select them.
    """
    if not part.tables.rows:
        return
    with engine(part.temporary).cursor() as connection:
        connection.execute(part.tables.variables())
        query, parameters = _query("unselected", predicate, within)
        query = query.replace("$only_failed", "true" if only_failed else "false").replace("$share", part.share.sql)
        rows = frame_from_relation(connection.sql(query, params=parameters))
    yield from part.bare_records(rows)


def unread_counts(
    store: Store, predicate: RowPredicate, within: RowPredicate | None = None
) -> list[tuple[str, str, str, str, int]]:
    """`(verb, group, resource, subresource, requests)` of what succeeded and the predicate does not select."""
    with connect(store.temporary, threads=1) as connection:
        connection.execute(store.tables.views())
        query, parameters = _query("unread_requests", predicate, within)
        return connection.execute(query, parameters).fetchall()


def _query(name: str, predicate: RowPredicate, within: RowPredicate | None) -> tuple[str, list[str]]:
    """The text of a query and the values of its `?`."""
    text = queries.text(name).replace("$predicate", predicate.sql).replace("$within", within.sql if within else "true")
    return text, [*predicate.parameters, *(within.parameters if within else ())]


def unmatched_by_kind(store: Store, predicate: RowPredicate) -> list[tuple[str, str, str, str, str, int]]:
    """`(group, resource, subresource, verb, level, requests)` of what succeeded and the predicate does not select."""
    with connect(store.temporary, threads=1) as connection:
        connection.execute(store.tables.views())
        query = queries.text("unmatched_by_kind").replace("$predicate", predicate.sql)
        return connection.execute(query, list(predicate.parameters)).fetchall()
