"""What a scenario names beside its log, loaded: manifest sets and the snapshot."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from replay.admission.ordered.registry import check_plugins, reads_of
from replay.admission.webhook.engine import check_engines
from replay.authorization.manifest import NOTHING, AuthorizationManifests, load_authorization
from replay.cellib.version import KubernetesVersion
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.manifests.server.settings import NO_SERVER
from replay.manifests.set_loader import SetObjects, set_objects
from replay.pipeline.kcp.folder import ShardFolders, load_shard, snapshot_of, union
from replay.pipeline.kcp.layout import is_by_workspace
from replay.pipeline.scenario import Scenario
from replay.reconstruct.cluster import Cluster, key_of
from replay.reconstruct.snapshot import read_snapshot


class Manifests(Struct, frozen=True):
    """The sets of a scenario, loaded, and the snapshot; a set that was not given is None."""

    version: KubernetesVersion
    snapshot: tuple[JSON, ...]
    current: ManifestSet | None
    candidate: ManifestSet | None
    authorization: tuple[AuthorizationManifests, AuthorizationManifests] = (NOTHING, NOTHING)
    """What the current and the candidate set say about authorization."""
    hints: tuple[str, ...] = ()
    """What was taken for granted of the sets."""
    folders: ShardFolders | None = None
    """The sets and the snapshot by workspace, where they are made so."""

    only: frozenset[str] = frozenset()
    """What alone is asked of what validates; empty for all."""
    path: Path = Path()
    """The set that is named first, where one is."""

    @property
    def sets(self) -> tuple[ManifestSet, ManifestSet]:
        """Both sets as the chain wants them: what is not known to have been in force is taken to be empty."""
        current = self.current if self.current is not None else NO_SERVER.completed(ManifestSet(), self.version)
        return current, self.candidate if self.candidate is not None else current


class SetFiles(NamedTuple):
    """The sets of a scenario as their files are, all of it validated; `added` are those on top of the current one."""

    current: SetObjects | None
    candidate: SetObjects | None
    added: tuple[SetObjects, ...] = ()

    def compile(self, version: KubernetesVersion) -> None:
        """Compile what policies say as a chain evaluates it, once for this process and all that are forked from it.

        Their validation has compiled it as the server does for what is new: with the libraries of the minor before.
        """
        for each in (self.current, self.candidate, *self.added):
            if each is not None:
                deque(reads_of(each.manifest_set(version), version), maxlen=0)


def set_files(scenario: Scenario) -> SetFiles | None:
    """Read the sets of a scenario, for which no engine is asked (see `forked`); None where they are made by workspace.

    Raises ReplayError for what cannot be used.
    """
    if _is_by_workspace(scenario):
        return None
    if scenario.add and scenario.candidate is not None:
        raise ReplayError(
            "--add puts a policy on top of the current set, and --candidate is another one: give one of them"
        )

    def read(path: Path | None) -> SetObjects | None:
        return None if path is None else set_objects(path, scenario.version)

    added = tuple(set_objects(path, scenario.version) for path in scenario.add)
    return SetFiles(read(scenario.current), read(scenario.candidate), added)


def manifests_of(scenario: Scenario, files: SetFiles | None = None) -> Manifests:
    """Load what a scenario names, API-based policies from the snapshot where a set has none of its own.

    `files` are those of its sets, where they have been read. Raises ReplayError for what cannot be used.
    """
    files = files or set_files(scenario)
    if files is None:
        return _by_workspace(scenario)
    version = scenario.version
    snapshot = tuple(read_snapshot(scenario.cluster)) if scenario.cluster else ()
    api_objects = Cluster(snapshot).api_objects()
    candidate = files.candidate
    if files.added:
        candidate = files.current or SetObjects(api=(), engine=())
        for added in files.added:
            candidate = candidate.with_added(added, version, api_objects)

    # What the baseline's `api/` names and a candidate without one does not is taken away, although the snapshot shows it.
    named = {key_of(obj) for obj in (files.current.api or ())} if files.current is not None else set()
    left = [obj for obj in api_objects if key_of(obj) not in named]

    hints: list[str] = []

    def with_plugins(objects: SetObjects | None, in_cluster: Sequence[JSON]) -> ManifestSet | None:
        if objects is None:
            return None
        manifest_set = objects.manifest_set(version, in_cluster)
        check_plugins(manifest_set)
        hints.extend(check_engines(manifest_set))
        return manifest_set

    def authorizing(path: Path | None) -> AuthorizationManifests:
        return NOTHING if path is None else load_authorization(path, version)

    planned = scenario.current if scenario.add else scenario.candidate
    current, planned_set = with_plugins(files.current, api_objects), with_plugins(candidate, left)
    hints += (hint for each in (files.current, candidate) if each is not None for hint in each.hints)
    return Manifests(
        version,
        snapshot,
        current,
        planned_set,
        (authorizing(scenario.current), authorizing(planned)),
        tuple(dict.fromkeys(hints)),
        path=scenario.current or next(iter(scenario.candidate_paths), Path()),
    )


def _is_by_workspace(scenario: Scenario) -> bool:
    return is_by_workspace((scenario.current, scenario.candidate, scenario.cluster))


def _by_workspace(scenario: Scenario) -> Manifests:
    """The same for sets and a snapshot by workspace."""
    if scenario.add:
        raise ReplayError("--add is for plain sets: give --candidate with the folder of the workspace")
    folders = load_shard(scenario.current, scenario.candidate, scenario.cluster, scenario.version)
    current, candidate = folders.current, folders.candidate
    return Manifests(
        scenario.version,
        tuple(snapshot_of(folders.cluster, folders.names(()))),
        None if current is None else union(current.values()),
        None if candidate is None else union({**(current or {}), **candidate}.values()),
        folders=folders,
    )
