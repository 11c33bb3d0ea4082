"""The input of a command: log, manifest sets, cluster and version, from options or one directory."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.audit.format.table import LogFormat, formats_named
from replay.cellib.version import NEWEST, KubernetesVersion, Versions
from replay.storage.location import shown

STDIN = "-"


def name_of(path: Path) -> str:
    """Return the last part of a path, as a report names it. Bytes that are not UTF-8 are escaped."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


class Scenario(Struct, frozen=True):
    """Log files, a store, or files to add to a store, and the other inputs. A set that is None is not known.

    `log_format` names the writer of the log files, if given. `add` are sets planned on top of the baseline. `apply` are
    bundles to apply to the cluster, and `prune` selects by labels the objects that they would delete. With nothing
    planned but another server minor or webhooks that are down, the candidate is the baseline.
    """

    logs: tuple[str, ...] = ()
    log_format: str = ""
    store: Path | str | None = None
    current: Path | None = None
    candidate: Path | None = None
    add: tuple[Path, ...] = ()
    apply: tuple[Path, ...] = ()
    prune: str = ""
    cluster: Path | None = None
    version: KubernetesVersion = NEWEST
    candidate_version: KubernetesVersion | None = None
    """The minor version of the candidate's API server, if it is another one (an upgrade)."""

    down: tuple[str, ...] = ()
    """The webhooks or configurations that do not answer under the candidate (an outage)."""
    current_down: tuple[str, ...] = ()
    """The webhooks or configurations that do not answer under the baseline."""

    @property
    def rehearses(self) -> bool:
        """Return whether the candidate has the baseline's manifests, on another server or without some webhooks."""
        return self.versions.differ or bool(self.down or self.current_down)

    @property
    def versions(self) -> Versions:
        """Return the minor versions of the API servers of both sets."""
        return Versions(self.version, self.candidate_version or self.version)

    @property
    def formats(self) -> tuple[LogFormat, ...]:
        """Return the formats that the log files may have, none if they are to be recognised.

        Raise ReplayError for an unknown name.
        """
        return formats_named(self.log_format) if self.log_format else ()

    @property
    def name(self) -> str:
        """Return the name of the log in a report."""
        names = [name_of(Path(shown(log))) if log != STDIN else "standard input" for log in self.logs]
        return ", ".join(names) or (name_of(Path(self.store)) if self.store else "")

    @property
    def candidate_paths(self) -> tuple[Path, ...]:
        """Return the paths of the candidate set, which lie on top of each other. Empty without a candidate."""
        if self.add or self.apply:
            return (*((self.current,) if self.current is not None else ()), *self.add, *self.apply)
        if self.candidate is None and self.rehearses and self.current is not None:
            return (self.current,)
        return () if self.candidate is None else (self.candidate,)

    @property
    def baseline(self) -> Path | None:
        """Return the path of the baseline. For bundles without `--current` it is the snapshot."""
        return self.cluster if self.current is None and self.apply else self.current

    @property
    def set_paths(self) -> tuple[Path, ...]:
        """Return the paths of sets and snapshot.

        Bundles are left out, because they belong to no server of their own.
        """
        return tuple(path for path in (self.current, self.candidate, *self.add, self.cluster) if path is not None)

    def resolved(self) -> Scenario:
        """Return the scenario with paths from one directory with `audit.*` and `candidate/`.

        Options that name them have precedence.
        """
        directory = Path(self.logs[0]) if len(self.logs) == 1 and self.logs[0] != STDIN else None
        logs = sorted(directory.glob("audit.*")) if directory and (directory / "candidate").exists() else []
        if directory is None or not logs:
            return self
        is_planned = self.add or self.apply or self.rehearses
        current, cluster = directory / "current", sorted(directory.glob("cluster.*")) or _folder(directory / "cluster")
        return replace(
            self,
            logs=tuple(map(str, logs)),
            current=self.current or (current if current.exists() else None),
            candidate=self.candidate or (None if is_planned else directory / "candidate"),
            cluster=self.cluster or (cluster[0] if cluster else None),
        )


def _folder(path: Path) -> list[Path]:
    """Return a directory as a list, empty if it does not exist."""
    return [path] if path.is_dir() else []
