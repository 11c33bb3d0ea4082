"""The log that a question is asked of, and the manifests that were in force: files that are read now, or a filled store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from replay.audit import queries
from replay.audit.ingest import literal
from replay.audit.reject import RejectReason
from replay.audit.store import Store
from replay.errors import AuditLogError, ReplayError
from replay.pipeline.scenario import STDIN, scenario_in

Progress = Callable[[str, int, int], None]
NEAR = 3
"""How many names are offered for one that is not known."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """Log files, a store, or files to be added to a store, with what else is known; a set that is None is not known."""

    logs: tuple[str, ...] = ()
    store: Path | None = None
    current: Path | None = None
    candidate: Path | None = None
    cluster: Path | None = None
    version: str = "1.37"

    @property
    def name(self) -> str:
        """How a report names the log."""
        names = [Path(log).name if log != STDIN else "standard input" for log in self.logs]
        return ", ".join(names) or (self.store.name if self.store else "")

    def resolved(self) -> LogSource:
        """The same, where one scenario directory stands for its log, its sets and its snapshot."""
        found = scenario_in(Path(self.logs[0])) if len(self.logs) == 1 and self.logs[0] != STDIN else None
        if found is None:
            return self
        return replace(
            self,
            logs=found.logs,
            current=self.current or found.current,
            candidate=self.candidate or found.candidate,
            cluster=self.cluster or found.cluster,
        )


@contextmanager
def opened(source: LogSource, progress: Progress) -> Iterator[Store]:
    """The store of a source, with the views `decision` and `chosen_decision` of `queries/README.md`.

    Raises ReplayError if neither a log nor a filled store is given.
    """
    if not source.logs and source.store is None:
        raise ReplayError("no log: give log files, or --store with the directory of a store")
    if not source.logs and source.store is not None and not (source.store / "store.json").is_file():
        raise AuditLogError("there is no store: give log files as well, and it is made", path=str(source.store))
    with Store.open(source.store) as store:
        if source.logs:
            store.ingest(source.logs, progress)
        if not store.requests:
            raise AuditLogError("the store holds no request", path=str(source.store or ""))
        store.sql(queries.text("ingest_decision_views"))
        yield store


def set_variables(store: Store, values: Iterable[tuple[str, str | bool | None]]) -> None:
    """Give the parameters of queries; None unsets one."""
    for name, value in values:
        if value is None:
            store.sql(f'reset variable "{name}"')
        else:
            store.sql(f'set variable "{name}" = {literal(value) if isinstance(value, str) else str(value).lower()}')


def require_known(store: Store, kind: str, name: str, also: Iterable[str] = ()) -> None:
    """Raise ReplayError with near matches if a log has no such policy, user, namespace, object or audit_id."""
    set_variables(store, [("kind", kind)])
    known = {*store.query("log_names")["name"].to_list(), *also}
    if name in known:
        return
    near = get_close_matches(name, sorted(known), n=NEAR, cutoff=0.6)
    near = near or sorted(each for each in known if name and name in each)[:NEAR]
    spoken = {"audit_id": "request with the auditID"}.get(kind, kind)
    hint = f"; did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""
    raise ReplayError(f"the log has no {spoken} `{name}`{hint}")


def repeats(store: Store, audit_id: str) -> tuple[str, ...]:
    """Where other events with the auditID of a request stand, and what they are: the same once more, or another request."""
    wanted = (RejectReason.DUPLICATE, RejectReason.CONFLICTING)
    return tuple(
        f"{reject.file}:{reject.line}: {reject.reason}"
        for reject in store.rejects()
        if reject.audit_id == audit_id and reject.reason in wanted
    )
