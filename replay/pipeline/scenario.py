"""What a run is about: the logs, the two manifest sets and the snapshot, from options or from one scenario directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.errors import ReplayError

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Scenario:
    """The inputs of a run; `current` None is the empty set."""

    logs: tuple[str, ...]
    current: Path | None
    candidate: Path
    cluster: Path | None

    @property
    def name(self) -> str:
        """How a report names the log."""
        return ", ".join(Path(log).name if log != STDIN else "standard input" for log in self.logs) or "the store"


def scenario(
    logs: Sequence[str],
    current: Path | None = None,
    candidate: Path | None = None,
    cluster: Path | None = None,
    store: Path | None = None,
) -> Scenario:
    """The scenario of some options; one directory with `audit.*` and `candidate/` needs none, and options come before it.

    Raises ReplayError where there is no candidate set, or neither a log nor a store that holds one.
    """
    if not logs and (store is None or not (store / "store.json").is_file()):
        raise ReplayError("no log: give log files, or --store with a directory that `replay ingest` has filled")
    found = scenario_in(Path(logs[0])) if len(logs) == 1 and logs[0] != STDIN else None
    if found is not None:
        return Scenario(found.logs, current or found.current, candidate or found.candidate, cluster or found.cluster)
    if candidate is None:
        raise ReplayError(
            "no candidate set: give --candidate, or a directory with audit.* and candidate/",
            path=logs[0] if logs else str(store),
        )
    return Scenario(tuple(logs), current, candidate, cluster)


def scenario_in(path: Path) -> Scenario | None:
    """The scenario in a directory, None if it is none."""
    logs = sorted(path.glob("audit.*")) if (path / "candidate").exists() else []
    if not logs:
        return None
    cluster = sorted(path.glob("cluster.*"))
    current = path / "current"
    return Scenario(
        tuple(map(str, logs)),
        current if current.exists() else None,
        path / "candidate",
        cluster[0] if cluster else None,
    )
