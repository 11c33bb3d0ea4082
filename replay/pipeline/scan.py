"""`replay scan` as a function: the candidate's decisions about the objects of a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.audit.ingest import Progress
from replay.audit.part import user_info_from_json
from replay.audit.store import Store
from replay.case.attributes import AttributesMaker, CaseAttributes
from replay.case.case import UNSTATED, Case, CaseError, CaseRequest, Expectation
from replay.compare.scan import Scan, ScannedObject
from replay.compare.subject import Owners, controller, workload
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.discovery import APIResource
from replay.kube.engine_policy import ENGINES, function_of
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.rbac_authorizer import RBACAuthorizer
from replay.kube.redact import Redactor
from replay.kube.schema import Schemas
from replay.manifests.engine_object import Reported
from replay.pipeline.log import store_of
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.project.format import CaseOperation
from replay.pipeline.replay.distinct_set import distinct_sets
from replay.pipeline.replay.redaction import redacted_decision
from replay.pipeline.scenario import Scenario, name_of
from replay.reconstruct.cluster import NAMESPACE, Cluster, ClusterLister

ALWAYS = 2**62
"""An instant at which the whole snapshot is settled, in microseconds."""
_INTERMEDIATE_KINDS = frozenset({"ReplicaSet", "Job", "ControllerRevision"})
_ADMIN = UserInfo("kubernetes-admin", "", ("system:masters", "system:authenticated"))
_NEVER = frozenset({"Event", "Lease", "Endpoints", "EndpointSlice", "ComponentStatus"})
"""The kinds that components write for themselves all the time."""

Writers = Mapping[tuple[str, str, str, str], UserInfo]
"""The last writer of an object, by group, resource, namespace and name."""


class ScanOptions(Struct, frozen=True, kw_only=True):
    """The operation to evaluate, and the assumed writer of objects that the log does not show."""

    operation: CaseOperation = CaseOperation.UPDATE
    user: UserInfo | None = None
    redact: bool = True
    namespaces: tuple[str, ...] = ()
    """Only objects in these namespaces. `*` is a wildcard, empty means all."""


def scan(scenario: Scenario, options: ScanOptions, progress: Progress) -> Scan:
    """Return the candidate's decisions about all objects of the snapshot.

    Logs show who writes them. Raise ReplayError.
    """
    if scenario.cluster is None:
        raise ReplayError(
            "no snapshot: give a file of objects, as `replay snapshot` or `kubectl get -A -o json` writes it"
        )
    if not scenario.candidate_paths:
        raise ReplayError("no candidate set: give --candidate, or --add with a policy on top of --current")
    manifests = manifests_of(scenario)
    if manifests.is_shard:
        raise ReplayError("scan does not support several kcp workspaces: give the set and the objects of one workspace")
    writers: Writers = {}
    if scenario.logs or scenario.store is not None:
        with store_of(scenario, progress) as store:
            writers = _writers(store)
    name = name_of(Path(scenario.cluster))
    return scan_snapshot(manifests, options, writers, name, progress)


def scan_store(
    store: Store, scenario: Scenario, manifests: Manifests, namespaces: tuple[str, ...], progress: Progress
) -> Scan | None:
    """Return the scan of a scenario's snapshot for its next updates, with the writers of a store.

    None without a candidate or a snapshot, and for kcp.
    """
    if scenario.cluster is None or manifests.candidate is None or manifests.is_shard:
        return None
    name = name_of(Path(scenario.cluster))
    return scan_snapshot(manifests, ScanOptions(namespaces=namespaces), _writers(store), name, progress)


def scan_snapshot(manifests: Manifests, options: ScanOptions, writers: Writers, name: str, progress: Progress) -> Scan:
    """Return the candidate's decisions about all objects of the snapshot that is called `name`."""
    scanner = _Scanner(manifests, options, writers)
    scanned_objects: list[ScannedObject] = []
    skipped: Counter[str] = Counter()
    objects = [obj for obj in manifests.snapshot if _is_in(obj, options.namespaces)]
    for number, obj in enumerate(objects):
        progress("scanning", number, len(objects))
        scanned = scanner.scanned(obj)
        if isinstance(scanned, str):
            skipped[scanned] += 1
        else:
            scanned_objects.append(scanned)
    return Scan(
        name,
        options.operation.value,
        scanner.assumed_writer.username,
        tuple(scanned_objects),
        dict(skipped),
        manifests.hints,
    )


def _is_in(obj: JSON, namespaces: tuple[str, ...]) -> bool:
    """Return whether an object is in one of some namespaces. A Namespace is in itself, as in requests about it."""
    if not namespaces:
        return True
    metadata = obj.get("metadata") or {}
    namespace = str(metadata.get("name" if obj.get("kind") == "Namespace" else "namespace") or "")
    return any(fnmatchcase(namespace, pattern) for pattern in namespaces)


def _writers(store: Store) -> Writers:
    """Return the last writer of each object."""
    return {
        (group, resource, namespace, name): user_info_from_json(user)
        for group, resource, namespace, name, _, user in store.query("writers").iter_rows()
    }


class _Scanner(Struct, frozen=True, dict=True):
    """A snapshot and the sets."""

    manifests: Manifests
    options: ScanOptions
    writers: Writers

    @property
    def assumed_writer(self) -> UserInfo:
        """Return the assumed writer of objects that the log does not show."""
        return self.options.user or _ADMIN

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster(self.manifests.snapshot)

    @cached_property
    def _lister(self) -> ClusterLister:
        return ClusterLister(self._cluster, ALWAYS, ALWAYS)

    @cached_property
    def _schemas(self) -> Schemas:
        return Schemas(self._cluster.crds)

    @cached_property
    def _attributes_maker(self) -> AttributesMaker:
        return AttributesMaker(self._cluster.discovery, self._schemas)

    @cached_property
    def _chain(self) -> Chain:
        # Objects at rest do not show mutations of the baseline, so the first set is an empty one.
        sets = (ManifestSet(), *distinct_sets(self.manifests.sets))
        return Chain(sets, self.manifests.version, self._cluster.discovery, self._schemas, authorizer=RBACAuthorizer)

    @cached_property
    def _in_background(self) -> list[list[Any]]:
        """Return the background scans of each set: one for each engine that has policies to scan with."""
        scanning = [engine for engine in ENGINES if engine.background]
        seen = self._lister, self._cluster.discovery, ObjectPatchers(self._schemas)
        scans = [
            [scan for engine in scanning if (scan := function_of(engine.background)(manifests, *seen)) is not None]
            for manifests in (self.manifests.current or ManifestSet(), self.manifests.candidate or ManifestSet())
        ]
        if not scans[1]:
            names = " or ".join(engine.title for engine in scanning)
            raise ReplayError(f"the candidate holds no policy of {names} that scans in the background", path="--as")
        return scans

    @cached_property
    def _owners(self) -> Owners:
        objects_by_name = {}
        for obj in self.manifests.snapshot:
            metadata = obj.get("metadata") or {}
            owner = controller(metadata) if obj.get("kind") in _INTERMEDIATE_KINDS else None
            if owner is not None:
                objects_by_name[str(metadata.get("namespace") or ""), str(obj["kind"]), str(metadata.get("name"))] = (
                    owner
                )
        return objects_by_name

    def scanned(self, obj: JSON) -> ScannedObject | str:
        """Return the decision about one object, or why there is none."""
        kind = GroupVersionKind(*split_api_version(str(obj.get("apiVersion") or "")), str(obj.get("kind")))
        served = self._cluster.discovery.of_kind(kind)
        if served is None:
            return f"{kind.kind} of {kind.api_version} is not a known kind"
        if kind.kind in _NEVER:
            return f"{kind.kind} is written by components alone"
        user, is_shown = self._writer(served, obj)
        try:
            case_attributes = self._request_of(obj, served, kind, user)
        except CaseError as error:
            return f"{kind.kind}: {error.message}"
        if self.options.operation is CaseOperation.BACKGROUND:
            current, candidate = (_reported(each, obj, served) for each in self._in_background)
        else:
            original, validated = case_attributes.original, case_attributes.validated
            _, current, candidate = self._chain.decide(original, validated, self._lister)
        attributes = case_attributes.validated
        bodies = (obj,)
        redactor = Redactor(served.resource.resource, bodies, redact=self.options.redact)
        return ScannedObject(
            group=kind.group,
            resource=served.resource.resource,
            kind=kind.kind,
            namespace=attributes.namespace,
            name=attributes.name,
            owner=workload(replace(attributes, object=obj), self._owners),
            user=user.username,
            is_shown=is_shown,
            current=redacted_decision(redactor, current),
            candidate=redacted_decision(redactor, candidate),
        )

    def _writer(self, served: APIResource, obj: JSON) -> tuple[UserInfo, bool]:
        metadata = obj.get("metadata") or {}
        place = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        shown = self.writers.get((served.resource.group, served.resource.resource, *place))
        return (self.assumed_writer, False) if shown is None else (shown, True)

    def _request_of(self, obj: JSON, served: APIResource, kind: GroupVersionKind, user: UserInfo) -> CaseAttributes:
        """Return the request about an object. An update that changes nothing has the object as its old object too."""
        metadata = obj.get("metadata") or {}
        name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
        namespace = name if kind == NAMESPACE else namespace
        namespace_object = self._namespace(namespace) if served.namespaced and namespace else None
        if self.options.operation is CaseOperation.CREATE:
            return self._created(obj, user, namespace_object)
        update = Attributes(
            Operation.UPDATE,
            kind,
            served.resource,
            "",
            namespace,
            name,
            user,
            options={"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
            object=obj,
            old_object=obj,
            namespace_object=namespace_object,
        )
        return CaseAttributes(update, update, is_stated=False, namespace=None)

    def _namespace(self, name: str) -> JSON | Missing:
        """Return the namespace of an object, or `Missing` if the snapshot lacks it."""
        namespace_object = self._lister.get(NAMESPACE, "", name)
        if namespace_object is not None:
            return namespace_object
        return Missing("namespaceObject", f"Namespace `{name}` is not in the snapshot", "take the snapshot again")

    def _created(self, obj: JSON, user: UserInfo, namespace: JSON) -> CaseAttributes:
        """Return the creation of an object, without the fields that the API server writes."""
        metadata = {name: part for name, part in (obj.get("metadata") or {}).items() if name not in _WRITTEN}
        anew = {name: part for name, part in obj.items() if name != "status"} | {"metadata": metadata}
        request = CaseRequest(operation=Operation.CREATE, object=anew, user_info=user, options=UNSTATED)
        case = Case(
            name="",
            path="",
            line=0,
            request=request,
            manifests=ManifestSet(),
            expected=Expectation(),
            strict=False,
        )
        case_attributes = self._attributes_maker.attributes(case)
        original, validated = (
            replace(each, namespace_object=namespace) for each in (case_attributes.original, case_attributes.validated)
        )
        return CaseAttributes(original, validated, is_stated=False, namespace=None)


def _reported(scans: Iterable[Any], obj: JSON, served: APIResource) -> Decision:
    """Return the reports of background scans as a decision. Each violation takes the place of a denial."""
    reported: list[Reported] = [each for scan in scans for each in scan.reported(obj, served)]
    denials = tuple(
        Denial(each.policy, "", None, each.message, "", 0, is_error=each.is_error)
        for each in reported
        if not each.unknown
    )
    gaps = tuple(Undetermined(each.policy, "", each.unknown) for each in reported if each.unknown)
    verdict = Verdict.UNDETERMINED if gaps else Verdict.DENIED if denials else Verdict.ADMITTED
    return Decision(verdict, denials, undetermined=gaps)


_WRITTEN = frozenset(
    {
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "generation",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
"""The metadata fields that the API server writes."""
