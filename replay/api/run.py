"""`replay.run` and `replay.Store`: the command `replay run` as a function that returns its result."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from replay.api.result import Result
from replay.audit.format.table import formats_named
from replay.audit.ingest import Progress
from replay.audit.store import Store as StoredLog
from replay.compare.subject import OWNER_LABEL
from replay.pipeline.forensic.sql import run_query
from replay.pipeline.options import Focus, Options, today
from replay.pipeline.scenario import Scenario
from replay.pipeline.version import versions_of_sides

if TYPE_CHECKING:
    import pyarrow as pa


_StrPath = str | PathLike[str]


class Store:
    """A store of audit logs in a directory, or in a bucket (a URL).

    The first log creates it. `replay ingest` adds to the same store.
    """

    def __init__(self, path: _StrPath) -> None:
        """Name the directory or URL. Reads nothing yet."""
        self.path = _place_of(path)

    def __repr__(self) -> str:
        """`Store('audit.store')`."""
        return f"Store({str(self.path)!r})"

    def ingest(self, logs: _StrPath | Iterable[_StrPath], *, log_format: str = "") -> int:
        """Add logs (files, directories, globs) that are not in the store yet, and return the number of requests in the store.

        After a ReplayError the store is unchanged.
        """
        with StoredLog.open(self.path) as store:
            store.ingest(_paths(logs), formats=formats_named(log_format) if log_format else ())
            return store.requests

    @property
    def requests(self) -> int:
        """Return the number of requests in the store."""
        with StoredLog.open(self.path) as store:
            return store.requests

    def sql(self, query: str, *, redact: bool = True, **parameters: str) -> pa.Table:
        """Return the rows of a SELECT over the views `request` and `decision`, or of a named query (`queries/README.md`).

        `redact` hides Secret data and tokens. Raises ReplayError for a statement that is no SELECT or that fails.
        """
        return run_query(Scenario(store=self.path), query, parameters, _silent, redact=redact).to_arrow()


def _place_of(path: _StrPath) -> Path | str:
    """Return a directory as a path, and a URL unchanged."""
    return fspath(path) if "://" in fspath(path) else Path(path)


def _silent(_what: str, _count: int, _total: int) -> None:
    """Show no progress."""


def _paths(path: _StrPath | Iterable[_StrPath]) -> tuple[str, ...]:
    """Return one path or several as a tuple."""
    return (fspath(path),) if isinstance(path, str | PathLike) else tuple(fspath(each) for each in path)


Names = str | Iterable[str]


def run(  # noqa: PLR0913 - as the command has them
    logs: _StrPath | Iterable[_StrPath] | Store,
    *,
    current: _StrPath | None = None,
    candidate: _StrPath | None = None,
    add: _StrPath | Iterable[_StrPath] = (),
    apply: _StrPath | Iterable[_StrPath] = (),
    cluster: _StrPath | None = None,
    store: _StrPath | None = None,
    policies: Names = (),
    namespaces: Names = (),
    users: Names = (),
    since: str | None = None,
    until: str | None = None,
    accepted: _StrPath | None = None,
    owner_label: str = OWNER_LABEL,
    redact: bool = True,
    workers: int = 1,
    kubernetes_version: str | None = None,
    current_version: str | None = None,
    candidate_version: str | None = None,
    down: Names = (),
    current_down: Names = (),
    progress: Progress = _silent,
) -> Result:
    """Replay audit logs against the current and the candidate manifests.

    `logs` are files, directories, globs, a `Store`, or a directory that holds audit.*, current/, candidate/ and cluster.*, and
    needs nothing else. The other arguments are the options of `replay run`; `store` keeps logs and results. `workers` 0 means a
    process for each core. Raises ReplayError with one line for whatever cannot be used.
    """
    store_path = logs.path if isinstance(logs, Store) else None if store is None else _place_of(store)
    asked = versions_of_sides(current_version, candidate_version, kubernetes_version)
    scenario = Scenario(
        () if isinstance(logs, Store) else _paths(logs),
        store=store_path,
        current=_path(current),
        candidate=_path(candidate),
        add=tuple(map(Path, _paths(add))),
        apply=tuple(map(Path, _paths(apply))),
        cluster=_path(cluster),
        version=asked.current,
        candidate_version=asked.candidate if asked.differ else None,
        down=_names(down),
        current_down=_names(current_down),
    ).resolved()
    versions = versions_of_sides(current_version, candidate_version, kubernetes_version, scenario.set_paths)
    scenario = replace(
        scenario, version=versions.current, candidate_version=versions.candidate if versions.differ else None
    )
    options = Options(
        redact=redact,
        workers=workers,
        focus=Focus(_names(policies), _names(namespaces), _names(users), since=since, until=until),
        accepted=_path(accepted),
        owner_label=owner_label,
        today=today(),
    )
    return Result.from_scenario(scenario, options, progress)


def _path(path: _StrPath | None) -> Path | None:
    return None if path is None else Path(path)


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
