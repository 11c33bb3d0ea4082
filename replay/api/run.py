"""`replay.run`: what `replay run` does, with the result as a value."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from replay.api.result import Result
from replay.api.store import Store, StrPath, paths, place_of, silent
from replay.audit.ingest import Progress
from replay.compare.subject.owner import OWNER_LABEL
from replay.pipeline.focus import Focus
from replay.pipeline.options import Options
from replay.pipeline.period import today
from replay.pipeline.scenario import Scenario
from replay.pipeline.version import versions_of_sides

Names = str | Iterable[str]


def run(  # noqa: PLR0913 - as the command has them
    logs: StrPath | Iterable[StrPath] | Store,
    *,
    current: StrPath | None = None,
    candidate: StrPath | None = None,
    add: StrPath | Iterable[StrPath] = (),
    apply: StrPath | Iterable[StrPath] = (),
    cluster: StrPath | None = None,
    store: StrPath | None = None,
    policies: Names = (),
    namespaces: Names = (),
    users: Names = (),
    since: str | None = None,
    until: str | None = None,
    accepted: StrPath | None = None,
    owner_label: str = OWNER_LABEL,
    redact: bool = True,
    workers: int = 1,
    kubernetes_version: str | None = None,
    current_version: str | None = None,
    candidate_version: str | None = None,
    down: Names = (),
    current_down: Names = (),
    progress: Progress = silent,
) -> Result:
    """Replay audit logs against the current and the candidate manifests.

    `logs` are files, directories, globs, a `Store`, or a directory that holds audit.*, current/, candidate/ and cluster.*, and
    needs nothing else. The other arguments are the options of `replay run`; `store` keeps logs and results. `workers` 0 means a
    process for each core. Raises ReplayError with one line for whatever cannot be used.
    """
    store_path = logs.path if isinstance(logs, Store) else None if store is None else place_of(store)
    asked = versions_of_sides(current_version, candidate_version, kubernetes_version)
    scenario = Scenario(
        () if isinstance(logs, Store) else paths(logs),
        store=store_path,
        current=_path(current),
        candidate=_path(candidate),
        add=tuple(map(Path, paths(add))),
        apply=tuple(map(Path, paths(apply))),
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
    return Result.of(scenario, options, progress)


def _path(path: StrPath | None) -> Path | None:
    return None if path is None else Path(path)


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
