"""The reach of a finding: the keys of other objects to follow under the candidate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import NamedTuple, Protocol

import orjson

from replay.admission.ordered.registry import looked_up_resources, units_of
from replay.admission.ordered.request_class import ClassQuestions
from replay.audit.event import RequestRecord
from replay.audit.part import user_info_from_json
from replay.audit.place import BETWEEN, stored_key
from replay.audit.store import Store
from replay.authorization.chains import Authorizers
from replay.cellib.version import Versions
from replay.kcp.shard.planned import Workspaces
from replay.kube.admissionregistration import Sets
from replay.kube.attributes import UserInfo
from replay.kube.gvk import GroupResource, GroupVersionKind, ObjectRef
from replay.kube.lister import ObjectKey
from replay.kube.rbac import RBAC_GROUP, RBAC_RESOURCES, RoleBindings
from replay.manifests.diff import diff_sets
from replay.matching.coarse import CoarseClass, may_select
from replay.matching.rules import EquivalentResourceMapper
from replay.reconstruct.cluster import Cluster
from replay.world.collection import Collections
from replay.world.creation import UnnamedCreation
from replay.world.decide import OPEN, Gate
from replay.world.lookup import DEFINITION, LookupChanges, granting_objects
from replay.world.namespace import namespace_key
from replay.world.ownership import Ownership
from replay.world.result import Cause, CausingRequest, answered, label, refusers


class ComparedSets(Protocol):
    """What the reach depends on: the sets of a job, and all that lets them decide one request differently."""

    @property
    def distinct_sets(self) -> Sets: ...  # noqa: D102
    @property
    def versions(self) -> Versions: ...  # noqa: D102
    @property
    def gate(self) -> Gate: ...  # noqa: D102
    @property
    def authorizers(self) -> Authorizers | None: ...  # noqa: D102
    @property
    def workspaces(self) -> Workspaces | None: ...  # noqa: D102
    @property
    def excluded(self) -> frozenset[GroupResource]: ...  # noqa: D102
    @property
    def cluster(self) -> Cluster: ...  # noqa: D102
    @property
    def questions(self) -> ClassQuestions: ...  # noqa: D102


def may_decide_differently(job: ComparedSets) -> Callable[[CoarseClass], bool]:
    """Return a predicate of classes that the sets may decide differently.

    It compares the policies that can match, so it may be true for sets that always agree.
    """
    current, candidate = job.distinct_sets
    if (
        job.workspaces is not None
        or job.versions.differ
        or job.gate != OPEN
        or job.authorizers is not None
        or current.objects != candidate.objects
        or candidate.removed
    ):
        return lambda _requests: True
    mapper = EquivalentResourceMapper(job.cluster.discovery)
    units = [
        [(unit.digest, may_select(unit.match, mapper, job.excluded)) for unit in units_of(each)]
        for each in job.distinct_sets
    ]

    def acting(of_set: list[tuple[str, Callable[[CoarseClass], bool]]], requests: CoarseClass) -> list[str]:
        return [digest for digest, selects in of_set if selects(requests)]

    return lambda requests: acting(units[0], requests) != acting(units[1], requests)


def in_namespaces(store: Store, namespaces: Collection[str]) -> Iterator[str]:
    """Yield the keys of all objects in some namespaces."""
    if namespaces:
        rows = store.frame("in_namespaces", namespaces=orjson.dumps(sorted(namespaces)).decode())
        yield from (str(row[0]) for row in rows.rows())


class LogAnswers:
    """Facts about the log that consequences always need. They are read while workers search, or on first use."""

    def __init__(self, store: Store) -> None:
        """Read nothing yet."""
        self.store = store

    @cached_property
    def ownership(self) -> Ownership:
        """Return the owners of created objects."""
        return Ownership.from_rows(self.store.frame("owned"))

    @cached_property
    def collections(self) -> list[RequestRecord]:
        """Return the deletions of collections, including denied ones.

        Without written objects in the log, nothing can be affected. Emptying a namespace deletes collections of all
        kinds.
        """
        return self.store.collections(refused=True, written=True)

    def collections_with(self, gate: Gate) -> list[RequestRecord]:
        """Return `collections` together with those that only the candidate's authorizers allow."""
        if not gate.newly_allowed:
            return self.collections
        return self.store.collections(refused=True, written=True, let_in=gate.newly_allowed)

    def ask(self, job: ComparedSets) -> None:
        """Read the facts now if the sets of a job may differ."""
        if may_differ(job):
            _ = self.ownership, self.collections, job.questions.consulted


def may_differ(job: ComparedSets) -> bool:
    """Return whether the candidate, or its authorizers, may decide anything differently."""
    current, candidate = job.distinct_sets
    is_other = current != candidate or job.versions.differ or job.workspaces is not None
    return is_other or job.gate != OPEN or job.authorizers is not None


def followed_collections(records: Iterable[RequestRecord], job: ComparedSets, findings: Container[int]) -> Collections:
    """Return the deleted collections to follow.

    A denied one is followed only if it is a finding and a policy that denied it may change.
    """
    changed = {name for each in diff_sets(*job.distinct_sets) for name in (each.name, each.new_name)}

    def is_followed(record: RequestRecord) -> bool:
        if answered(record).cause != Cause.DENIED:
            return True
        may_change = job.versions.differ or not changed.isdisjoint(refusers(record))
        return record.seq in findings and may_change

    return Collections.from_records(filter(is_followed, records), job.cluster.discovery)


class GatedObjects(NamedTuple):
    """Objects of requests that only one set's authorizers allow.

    `unnamed_creations` are those without a name in the log, in order, by group, resource and namespace.
    """

    keys: frozenset[str] = frozenset()
    unnamed_creations: Mapping[tuple[str, str, str], tuple[UnnamedCreation, ...]] = {}


def gated_objects(store: Store, gate: Gate) -> GatedObjects:
    """Return the objects that a gate concerns."""
    if gate == OPEN:
        return GatedObjects()
    rows = store.query("gated", requests=sorted(gate.refused | gate.newly_allowed | gate.unknown)).rows()
    unnamed = {}
    for group, resource, namespace, _, created in rows:
        name = label(ObjectRef(group, resource, namespace, ""))
        unnamed[group, resource, namespace] = tuple(
            UnnamedCreation(each["seq"], CausingRequest(each["audit_id"], name)) for each in created or ()
        )
    return GatedObjects(frozenset(row[3] for row in rows), unnamed)


def in_collections(store: Store, collections: Collections, stops: Mapping[int, str]) -> frozenset[str]:
    """Return the keys of objects that a collection keeps or deletes because it ends differently.

    `stops` maps a collection's number to the first refused object. Later objects stay.
    """
    keys: set[str] = set()
    for (group, resource, namespace, workspace), here in collections.by_place.items():
        # The log does not list what a refused request would have deleted, so any object may be among it.
        if any(each.is_refused for each in here):
            inside = in_namespaces(store, [namespace_key(namespace, workspace)])
            keys.update(key for key in inside if key.split(BETWEEN)[:3] == [group, resource, namespace])
        for each in here:
            stop = stops.get(each.record.seq)
            rest = (name for name in each.names if stop is not None and name > stop)
            keys.update(stored_key(ObjectRef(group, resource, namespace, name, workspace)) for name in rest)
    return frozenset(keys)


def looked_up_kinds(job: ComparedSets) -> dict[tuple[str, str], str]:
    """Return the kinds whose objects change decisions, by group and resource.

    These are namespaces, RBAC, policy parameters and CustomResourceDefinitions.
    """
    resources = looked_up_resources((job.distinct_sets[1],), job.cluster.discovery)
    params = {(each.resource.group, each.resource.resource): each.kind.kind for each in resources}
    rbac = {(each.group, each.resource): kind.kind for each, kind in RBAC_RESOURCES.items()}
    group, kind = DEFINITION
    return {**params, **rbac, ("", "namespaces"): "Namespace", (group, "customresourcedefinitions"): kind}


def searched_namespaces(job: ComparedSets) -> frozenset[str] | None:
    """Return the namespaces in which the candidate's bindings name parameters. None if an engine may look up anything.

    A binding without one looks in the namespace of the request (`generic.CollectParams`).
    """
    candidate = job.distinct_sets[1]
    if candidate.engine_objects:
        return None
    return frozenset(each.param_ref.namespace for each in candidate.bindings if each.param_ref is not None)


def dependent(store: Store, job: ComparedSets, changes: LookupChanges) -> frozenset[str]:
    """Return the keys of objects whose requests may end differently because a looked-up object differs.

    These are requests whose policies use authorizers or parameters, and requests that a changed binding allowed or may
    allow. All requests of a resource with a changed definition belong to them too.
    """
    if not changes:
        return frozenset()
    is_bound = _subjects(job, changes)
    since = min(each.place.seq for of_object in changes.values() for each in of_object)
    others = any(key[0] != RBAC_GROUP for key in changes)
    defined = {key[3] for key in changes if key[:2] == DEFINITION}
    keys: set[str] = set()
    for *columns, user, is_forbidden, reason, asked_keys in store.frame("askers", since=since).iter_rows():
        requests = CoarseClass(*columns)
        if (
            f"{requests.resource}.{requests.api_group}" in defined
            or not granting_objects(reason).isdisjoint(changes)
            or ((is_forbidden or job.questions.consulted(requests)) and (others or is_bound(user)))
        ):
            keys.update(asked_keys)
    return frozenset(keys)


def _subjects(job: ComparedSets, changes: LookupChanges) -> Callable[[str], bool]:
    """Return a predicate of users (as JSON) for whom bindings differ. A changed role may concern anyone."""
    bindings: list[RoleBindings] = []
    for key, of_object in changes.items():
        states = [branch.state for each in of_object for branch in each.branches if branch.state is not None]
        history = job.cluster.history(GroupVersionKind(key[0], "v1", key[1]), key[2], key[3])
        values = [getattr(state, "value", None) for state in states]
        values += [effect.state for effect in history.effects] if history is not None else []
        if not key[1].endswith("Binding"):
            return lambda _user: True
        bindings.append(RoleBindings(key[1], [value for value in values if isinstance(value, dict)], key[2]))

    @cache
    def is_bound(user: str) -> bool:
        user_info: UserInfo = user_info_from_json(user)
        return any(True for each in bindings for _ in each.roles_for(user_info))

    return is_bound


def object_key(record: RequestRecord, kind: str) -> ObjectKey:
    """Return the key by which a lister finds a record's object."""
    return record.api_group, kind, record.namespace, record.name
