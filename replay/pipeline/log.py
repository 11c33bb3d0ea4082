"""The log of a command: files that are read now, or a filled store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from replay.audit.answer import decision_views
from replay.audit.engine import literal
from replay.audit.ingest import Progress
from replay.audit.reject import RejectReason
from replay.audit.segment import IngestReport
from replay.audit.store import Store
from replay.errors import AuditLogError, ReplayError
from replay.pipeline.fleet.reading import FleetReader
from replay.pipeline.reading_process import AheadReading
from replay.pipeline.replay.workers import Fleet
from replay.pipeline.scenario import Scenario
from replay.storage.location import cluster_names

MOST_SUGGESTIONS = 3
"""Most suggestions for an unknown name."""


@contextmanager
def filled(
    scenario: Scenario, progress: Progress, fleet: Fleet | None = None, reading: AheadReading | None = None
) -> Iterator[tuple[Store, IngestReport]]:
    """Yield a scenario's store with its log files, and the ingest's report.

    Without a store of its own, it is temporary. `reading` has begun to fill it. Raise ReplayError without a log or
    filled store.
    """
    if not scenario.logs and scenario.store is None:
        raise ReplayError("no log: give log files, or --store with the directory of a store")
    if not scenario.logs and scenario.store is not None and not Store.is_at(scenario.store):
        if names := cluster_names(str(scenario.store)):
            raise AuditLogError(
                f"it has the clusters {', '.join(names)}: give --cluster-name", path=str(scenario.store)
            )
        raise AuditLogError("there is no store: give log files as well, and it is made", path=str(scenario.store))
    if reading is not None:
        is_kept = scenario.store is not None
        with Store.open(scenario.store) if is_kept else Store.for_one_run(reading.directory) as store:
            store.begin()
            catalog, report = reading.segments(progress)
            store.take_over(catalog)
            yield store, report
        return
    with Store.open(scenario.store) as store:
        yield store, ingested(store, scenario, progress, fleet) if scenario.logs else IngestReport()


def ingested(store: Store, scenario: Scenario, progress: Progress, fleet: Fleet | None = None) -> IngestReport:
    """Return the report of reading a scenario's logs into a store."""
    reader = FleetReader(fleet.executor(store), Path(store.temporary)) if fleet is not None else None
    return store.ingest(scenario.logs, progress, scenario.formats, reader)


@contextmanager
def store_of(scenario: Scenario, progress: Progress, fleet: Fleet | None = None) -> Iterator[Store]:
    """Yield a scenario's store, which holds requests."""
    with filled(scenario, progress, fleet) as (store, _):
        if not store.requests:
            raise AuditLogError("the store holds no request", path=str(scenario.store or ""))
        yield store


@contextmanager
def opened(scenario: Scenario, progress: Progress, fleet: Fleet | None = None) -> Iterator[Store]:
    """Yield the store with the views `decision` and `chosen_decision` of `queries/README.md`.

    Defining them takes as long as ten queries.
    """
    with store_of(scenario, progress, fleet) as store:
        store.prepare(decision_views())
        yield store


def set_variables(store: Store, values: Iterable[tuple[str, str | bool | None]]) -> None:
    """Set the parameters of queries; None unsets one."""
    for name, value in values:
        if value is None:
            store.sql(f'reset variable "{name}"')
        else:
            store.sql(f'set variable "{name}" = {literal(value) if isinstance(value, str) else str(value).lower()}')


def require_known(store: Store, kind: str, name: str, also: Iterable[str] = ()) -> None:
    """Raise ReplayError with near matches if a log has no such policy, user, namespace, object or audit_id."""
    set_variables(store, [("kind", kind)])
    names = {*store.query("log_names")["name"].to_list(), *also}
    if name in names:
        return
    near = get_close_matches(name, sorted(names), n=MOST_SUGGESTIONS, cutoff=0.6)
    near = near or sorted(each for each in names if name and name in each)[:MOST_SUGGESTIONS]
    spoken = {"audit_id": "request with the auditID"}.get(kind, kind)
    hint = f"; did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""
    raise ReplayError(f"the log has no {spoken} `{name}`{hint}")


def repeats(store: Store, audit_id: str) -> tuple[str, ...]:
    """Return other events with a request's auditID: duplicates, or other requests."""
    reasons = (RejectReason.DUPLICATE, RejectReason.CONFLICTING)
    return tuple(
        f"{reject.file}:{reject.line}: {reject.reason}"
        for reject in store.rejects()
        if reject.audit_id == audit_id and reject.reason in reasons
    )
