"""Loaded inputs besides the log: manifest sets and the snapshot."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.ordered.registry import check_plugins, looked_up_kinds, reads_of
from replay.admission.webhook.answer import check_engines
from replay.authorization.chain import DEFAULT_CONFIGURATION
from replay.authorization.manifest import NOTHING, AuthorizationManifests, comparable_manifests, load_authorization
from replay.cellib.version import KubernetesVersion, Versions
from replay.compare.outage import with_outage
from replay.errors import ReplayError
from replay.json import JSON
from replay.kcp.shard.folder import (
    ShardFolders,
    WorkspaceNames,
    load_shard,
    names_of,
    require_workspace,
    snapshot_of,
    union,
)
from replay.kcp.shard.layout import is_by_workspace
from replay.kcp.shard.planned import Workspaces, changes_of, diff_workspaces
from replay.kube.admissionregistration import ManifestSet, Registration, Sets, ValidatingAdmissionPolicyBinding
from replay.kube.engine_policy import ENGINES, function_of
from replay.kube.gvk import split_api_version
from replay.kube.overlay import GroupKind
from replay.kube.schema import CRD
from replay.manifests.apply import parse_prune, pruned, with_bundles
from replay.manifests.bundle import is_bundle
from replay.manifests.diff import diff_minors, diff_sets
from replay.manifests.object_diff import ObjectDiff
from replay.manifests.served import NO_GATES
from replay.manifests.server.flags import version_contradiction
from replay.manifests.server.settings import NO_SERVER
from replay.manifests.set_loader import SetObjects, applied_objects, set_objects
from replay.pipeline.scenario import Scenario
from replay.reconstruct.cluster import Cluster, key_of
from replay.reconstruct.snapshot import decompressed, read_snapshot


class Manifests(Struct, frozen=True):
    """The loaded sets of a scenario, and the snapshot. A set that was not given is None."""

    versions: Versions
    """Server minors of both sets."""
    snapshot: tuple[JSON, ...]
    current: ManifestSet | None
    candidate: ManifestSet | None
    authorization: tuple[AuthorizationManifests, AuthorizationManifests] = (NOTHING, NOTHING)
    """Authorization settings of baseline and candidate."""
    hints: tuple[str, ...] = ()
    """Assumptions about the sets."""
    only: frozenset[str] = frozenset()
    """Names of the only validating policies that run, empty for all."""
    path: Path = Path()
    """Path of the first named set, if there is one."""

    is_shard: ClassVar[bool] = False
    """Whether each workspace of kcp has its own sets."""

    @property
    def version(self) -> KubernetesVersion:
        """The minor of the server that wrote the log."""
        return self.versions.current

    @property
    def sets(self) -> Sets:
        """Return both sets for the chain. An unknown baseline is empty."""
        current = self.current if self.current is not None else NO_SERVER.completed(ManifestSet(), self.version)
        return current, self.candidate if self.candidate is not None else current

    def by_workspace(self) -> Iterator[tuple[str, Manifests]]:
        """Yield the sets of each workspace of kcp with its path, or those of the cluster with "" for the path."""
        yield "", self

    def differences(self) -> tuple[ObjectDiff, ...]:
        """Return the differences between the sets."""
        return (*diff_sets(*self.sets), *diff_minors(*self.sets, self.versions))

    def denying(self, names: Mapping[str, frozenset[str]]) -> Manifests:
        """Return the baseline, and as candidate the baseline with all bindings of some policies denying and nothing else.

        `names` are the policies of each workspace of kcp, or those of the cluster under "".
        """
        own = names[""]

        def bound(each: Registration) -> Registration:
            if not isinstance(each, ValidatingAdmissionPolicyBinding) or each.policy_name not in own:
                return each
            return each if "Deny" in each.validation_actions else replace(each, validation_actions=("Deny",))

        assert self.current is not None
        return replace(
            self, candidate=replace(self.current, registrations=tuple(map(bound, self.current.registrations)))
        )

    def names(self, logged: Iterable[tuple[str, str]]) -> WorkspaceNames:
        """Return the names of workspaces. `logged` are the logical clusters of the log with their paths."""
        return names_of(logged, ())

    def workspaces(self, logged: Sequence[tuple[str, str]]) -> Workspaces | None:
        """Return the workspaces of a kcp shard, None for another cluster; `logged` as for `names`.

        Raise ReplayError for one plain set with many workspaces.
        """
        if not logged:
            return None
        if self.current or self.candidate:
            raise require_workspace(self.path)
        return Workspaces(self.names(logged), heard=frozenset(cluster for cluster, _ in logged))


class ShardManifests(Manifests, frozen=True, kw_only=True):
    """The sets and snapshots of kcp workspaces. `current` and `candidate` have the policies of all of them."""

    folders: ShardFolders

    is_shard: ClassVar[bool] = True

    def by_workspace(self) -> Iterator[tuple[str, Manifests]]:
        """See `Manifests.by_workspace`."""
        sides = self.folders.current, self.folders.candidate
        for path in sorted({path for side in sides for path in side or ()}):
            current, candidate = (union([side[path]]) if side and path in side else None for side in sides)
            yield path, replace(self, current=current, candidate=candidate)

    def differences(self) -> tuple[ObjectDiff, ...]:
        """See `Manifests.differences`. Each has the path of its workspace in its name."""
        return diff_workspaces(self.folders, self.versions)

    def denying(self, names: Mapping[str, frozenset[str]]) -> Manifests:
        """See `Manifests.denying`."""

        def bound(obj: JSON, own: frozenset[str]) -> JSON:
            spec = obj.get("spec") or {}
            if obj.get("kind") != ValidatingAdmissionPolicyBinding.__name__ or spec.get("policyName") not in own:
                return obj
            return {**obj, "spec": {**spec, "validationActions": ["Deny"]}}

        planned = {
            path: replace(folder, policies=tuple(bound(each, names.get(path, frozenset())) for each in folder.policies))
            for path, folder in (self.folders.current or {}).items()
        }
        return replace(self, candidate=union(planned.values()), folders=replace(self.folders, candidate=planned))

    def names(self, logged: Iterable[tuple[str, str]]) -> WorkspaceNames:
        """See `Manifests.names`."""
        return self.folders.names(logged)

    def workspaces(self, logged: Sequence[tuple[str, str]]) -> Workspaces:
        """See `Manifests.workspaces`."""
        names = self.names(logged)
        current, candidate = (
            {names.cluster(path): folder.policies for path, folder in (side or {}).items()}
            for side in (self.folders.current, self.folders.candidate)
        )
        heard = frozenset(cluster for cluster, _ in logged)
        return Workspaces(names, current, candidate, heard, changes=changes_of(self.folders, names))


class SetFiles(NamedTuple):
    """The sets of a scenario as their files have them, validated.

    `added` and `bundles` are laid on top of the baseline.
    """

    current: SetObjects | None
    candidate: SetObjects | None
    added: tuple[SetObjects, ...] = ()
    bundles: tuple[SetObjects, ...] = ()
    upgraded: SetObjects | None = None
    """The baseline for the candidate's server, if that has another minor and the set stays."""

    def compile(self, versions: Versions) -> None:
        """Compile the policies once, for this process and all forked ones.

        Validation compiled them with the libraries of the minor before, as the server does for new expressions.
        """
        planned = ((each, versions.candidate) for each in (self.candidate, *self.added, *self.bundles, self.upgraded))
        for each, version in ((self.current, versions.current), *planned):
            if each is not None:
                deque(reads_of(each.manifest_set(version), version), maxlen=0)


def set_files(scenario: Scenario) -> SetFiles | None:
    """Read a scenario's sets before any engine starts (see `forked`), or None for sets by workspace.

    Raise ReplayError for unusable input.
    """
    if is_by_workspace((scenario.current, scenario.candidate, scenario.cluster)):
        return None
    if scenario.prune and not scenario.apply:
        raise ReplayError("--prune takes away what a bundle does not have: give the bundle with --apply")
    if scenario.candidate is not None:
        if scenario.add:
            text = "--add puts a policy on top of the baseline, and --candidate is another one: give one of them"
            raise ReplayError(text)
        if scenario.apply:
            text = "--apply puts a bundle on top of the baseline, and --candidate is another one: give one of them"
            raise ReplayError(text)

    current, candidate, versions = scenario.current, scenario.candidate, scenario.versions
    own = None if current is None else set_objects(current, versions.current)
    gates = NO_GATES if own is None else own.server.gates
    added = tuple(set_objects(path, versions.candidate) for path in scenario.add)
    bundles = tuple(applied_objects(path, versions.candidate, gates) for path in scenario.apply)
    if not scenario.rehearses or candidate not in (None, current):
        if scenario.apply and own is None:  # what is there is what the snapshot holds
            own = SetObjects()
        return SetFiles(own, None if candidate is None else set_objects(candidate, versions.candidate), added, bundles)
    if current is None:  # what the snapshot holds is in force before and after
        return SetFiles(SetObjects(), None, added, bundles, SetObjects())
    return SetFiles(own, None, added, bundles, set_objects(current, versions.candidate, versions.current))


def manifests_of(
    scenario: Scenario, files: SetFiles | None = None, decompress: Callable[[bytes], bytes] = decompressed
) -> Manifests:
    """Load a scenario's inputs, with API-based policies from the snapshot if a set has none.

    `files` are the sets, if they are read already. `decompress` returns the content of a zstd file. Raise ReplayError
    for unusable input.
    """
    files = files or set_files(scenario)
    if files is None:
        return _by_workspace(scenario)
    versions = scenario.versions
    snapshot = tuple(read_snapshot(scenario.cluster, decompress)) if scenario.cluster else ()
    api_objects = Cluster(snapshot).api_objects()
    candidate = files.candidate or files.upgraded
    if files.added or files.bundles:
        candidate = files.upgraded or files.current or SetObjects(api=(), engine=())
        for added in files.added:
            candidate = candidate.with_added(added, versions.candidate, api_objects)
        candidate = with_bundles(candidate, files.bundles, versions.candidate, api_objects)
        if scenario.prune:
            candidate = pruned(candidate, files.bundles, parse_prune(scenario.prune), snapshot)

    # A candidate without `api/` removes the objects of the baseline's `api/`, although the snapshot shows them.
    named = {key_of(obj) for obj in (files.current.api or ())} if files.current is not None else set()
    left = [obj for obj in api_objects if key_of(obj) not in named]

    hints: list[str] = []

    def with_plugins(
        objects: SetObjects | None, in_cluster: Sequence[JSON], version: KubernetesVersion
    ) -> ManifestSet | None:
        if objects is None:
            return None
        manifest_set = objects.manifest_set(version, in_cluster)
        check_plugins(manifest_set)
        hints.extend(check_engines(manifest_set))
        return manifest_set

    def authorizing(
        path: Path | None, objects: SetObjects | None, version: KubernetesVersion
    ) -> AuthorizationManifests:
        own = NOTHING if path is None or is_bundle(path) else load_authorization(path, version)
        return own if objects is None else own.with_rbac(objects.rbac, objects.removed, path)

    planned = scenario.current if files.added or files.bundles or files.upgraded is not None else scenario.candidate
    authorization = comparable_manifests(
        (
            authorizing(scenario.current, files.current, versions.current),
            authorizing(planned, candidate, versions.candidate),
        ),
        DEFAULT_CONFIGURATION,
    )
    current = with_plugins(files.current, api_objects, versions.current)
    planned_set = with_plugins(candidate, left, versions.candidate)
    if scenario.down or scenario.current_down:
        current, planned_set = with_outage((current, planned_set), scenario.current_down, scenario.down)
    hints += (hint for each in (files.current, candidate) if each is not None for hint in each.hints)
    sides = ((scenario.current, versions.current), (scenario.candidate, versions.candidate))
    told = ((path, version_contradiction(path, minor)) for path, minor in sides if path is not None)
    hints += (f"{path}: {text}" for path, text in told if text)
    hints += (
        f"{each.unseen}: the authorization decisions of the log are used" for each in authorization if each.unseen
    )
    others = [obj for each in (files.current, candidate) if each is not None for obj in each.others]
    kinds = deciding_kinds(each for each in (current, planned_set) if each is not None)
    current, planned_set = (
        None if each is None else without_idle(each, others, kinds) for each in (current, planned_set)
    )
    hints += _idle_texts(others, kinds)
    return Manifests(
        versions,
        snapshot,
        current,
        planned_set,
        authorization,
        tuple(dict.fromkeys(hints)),
        path=scenario.current or next(iter(scenario.candidate_paths), Path()),
    )


def _by_workspace(scenario: Scenario) -> Manifests:
    """Return the inputs for sets and a snapshot by workspace."""
    if scenario.add or scenario.apply:
        option = "--add" if scenario.add else "--apply"
        raise ReplayError(f"{option} is for plain sets: give --candidate with the folder of the workspace")
    folders = load_shard(scenario.current, scenario.candidate, scenario.cluster, scenario.versions)
    now, planned = folders.current, folders.candidate
    if now is None and scenario.rehearses:  # what the snapshot holds is in force before and after
        now = folders.cluster
    current = None if now is None else union(now.values())
    candidate = current if planned is None and scenario.rehearses else None
    if planned is not None:
        candidate = union({**(now or {}), **planned}.values())
    if scenario.down or scenario.current_down:
        current, candidate = with_outage((current, candidate), scenario.current_down, scenario.down)
    return ShardManifests(
        scenario.versions,
        tuple(snapshot_of(folders.cluster, folders.names(()))),
        current,
        candidate,
        folders=folders,
    )


def with_provider_answers(manifests: Manifests, options: Sequence[str]) -> tuple[Manifests, list[str]]:
    """Return the sets with recorded answers of what their engines ask, and the options that name nothing of the kind.

    Raise ReplayError for a bad file.
    """
    objects = [value for each in manifests.sets for value in each.engine_objects]
    answers, left = list[JSON](), list(options)
    for engine in ENGINES:
        if engine.providers:
            own, left = function_of(engine.providers)(objects, left)
            answers += own
    if not answers:
        return manifests, left

    def answering(manifest_set: ManifestSet | None) -> ManifestSet | None:
        if manifest_set is None or not manifest_set.engine_objects:
            return manifest_set
        return replace(manifest_set, engine_objects=(*manifest_set.engine_objects, *answers))

    current, candidate = answering(manifests.current), answering(manifests.candidate)
    return replace(manifests, current=current, candidate=candidate), left


def deciding_kinds(sets: Iterable[ManifestSet]) -> frozenset[GroupKind]:
    """Return the kinds of objects on which decisions of some sets depend."""
    return frozenset({(CRD.group, CRD.kind), *(kind for each in sets for kind in looked_up_kinds(each))})


def without_idle(manifests: ManifestSet, others: Iterable[JSON], kinds: frozenset[GroupKind]) -> ManifestSet:
    """Return a set without the other objects of bundles that are not of some kinds."""
    idle = {id(obj) for obj in others if _kind_of(obj) not in kinds}
    if not idle and not manifests.removed:
        return manifests
    left = tuple(each for each in manifests.objects if id(each) not in idle)
    return replace(
        manifests, objects=left, removed=tuple(each for each in manifests.removed if _kind_of(each) in kinds)
    )


def _kind_of(obj: JSON) -> tuple[str, str]:
    return split_api_version(str(obj["apiVersion"]))[0], str(obj["kind"])


def _idle_texts(others: Iterable[JSON], kinds: frozenset[GroupKind]) -> Iterator[str]:
    """Yield a sentence about objects on which no decision depends."""
    idle = {id(obj): str(obj["kind"]) for obj in others if _kind_of(obj) not in kinds}
    counts = sorted(Counter(idle.values()).items(), key=lambda each: (-each[1], each[0]))
    if counts:
        listed = ", ".join(f"{count} {kind}" for kind, count in counts)
        yield f"skipped in the bundle, because no request of the log depends on them: {listed}"
