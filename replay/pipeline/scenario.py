"""What a command is asked about: the log, the manifest sets, the cluster and the version, from options or one directory."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.audit.format.table import LogFormat, formats_named
from replay.cellib.version import NEWEST, KubernetesVersion, Versions
from replay.storage.remote import shown

STDIN = "-"


def name_of(path: Path) -> str:
    """The last part of a path as a report names it; bytes that are not UTF-8 are spelled out."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


class Scenario(Struct, frozen=True):
    """Log files, a store, or files to be added to a store, with what else is known; a set that is None is not known.

    `log_format` names what wrote the log files, where that was said. `add` are sets that are planned on top of the current one, `apply`
    bundles that would be applied to the cluster; `prune` selects by labels what they would take away. Where the candidate's server is of
    another minor, or webhooks are down, and nothing else is planned, the candidate is the current set.
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
    """The minor of the candidate's server, where it is another one: an upgrade."""

    down: tuple[str, ...] = ()
    """Webhooks, or configurations, that do not answer in the candidate: an outage."""
    current_down: tuple[str, ...] = ()
    """The same of the baseline."""

    @property
    def rehearses(self) -> bool:
        """Whether the same manifests are asked about: on another server, or without some webhooks."""
        return self.versions.differ or bool(self.down or self.current_down)

    @property
    def versions(self) -> Versions:
        """The minors of the servers of both sets."""
        return Versions(self.version, self.candidate_version or self.version)

    @property
    def formats(self) -> tuple[LogFormat, ...]:
        """The formats that the log files may have, none where that is to be recognised; raises ReplayError for a name."""
        return formats_named(self.log_format) if self.log_format else ()

    @property
    def name(self) -> str:
        """How a report names the log."""
        names = [name_of(Path(shown(log))) if log != STDIN else "standard input" for log in self.logs]
        return ", ".join(names) or (name_of(Path(self.store)) if self.store else "")

    @property
    def candidate_paths(self) -> tuple[Path, ...]:
        """Where the candidate set is: a path, or those that are on top of each other; empty where there is none."""
        if self.add or self.apply:
            return (*((self.current,) if self.current is not None else ()), *self.add, *self.apply)
        if self.candidate is None and self.rehearses and self.current is not None:
            return (self.current,)
        return () if self.candidate is None else (self.candidate,)

    @property
    def baseline(self) -> Path | None:
        """Where the current set is: for bundles on top of what is there, the snapshot, if no other is named."""
        return self.cluster if self.current is None and self.apply else self.current

    @property
    def set_paths(self) -> tuple[Path, ...]:
        """Where sets and the snapshot are, without the bundles: they are of no server of their own."""
        return tuple(path for path in (self.current, self.candidate, *self.add, self.cluster) if path is not None)

    def resolved(self) -> Scenario:
        """The same, where one directory with `audit.*` and `candidate/` stands for what no option names."""
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
    """A directory, if it is there."""
    return [path] if path.is_dir() else []
