"""Objects of the cluster at the time of a request, from a snapshot and the log together.

Policies read namespaces, parameters and RBAC objects. Each has a history like any other object. The snapshot's version
has its place in that history by `resourceVersion`, whether it was taken before, during or after the log. If the
snapshot holds no object of a kind, perhaps it was not asked for that kind: then only what the log shows is known, and
an object that the log does not show may exist.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from msgspec import Struct

from replay.audit.event import CREATED, RequestRecord
from replay.audit.part import object_ref
from replay.json import JSON
from replay.kcp.binding import APIBindings
from replay.kube.attributes import Basis, Missing, PossiblyAbsent
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, ObjectRef, split_api_version
from replay.kube.lister import ObjectKey
from replay.kube.plugin import LIMIT_RANGE
from replay.kube.schema import Schemas
from replay.manifests.engine_object import is_engine_object
from replay.reconstruct.history.clock import RevisionClock
from replay.reconstruct.history.collection_deletion import CollectionDeletions
from replay.reconstruct.history.effect import EffectKind
from replay.reconstruct.history.history import History
from replay.reconstruct.record.body import Body, revision
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, attribute, merged

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
ADMISSIONREGISTRATION = "admissionregistration.k8s.io"
CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")
CACHE_DELAY = 1_000_000
"""Longest lag of the API server's informers behind the storage, in microseconds."""
RESOURCE_QUOTA = GroupVersionKind("", "v1", "ResourceQuota")
NONE_UNLESS_SHOWN = frozenset({LIMIT_RANGE, RESOURCE_QUOTA})
"""Kinds that most clusters have no objects of. Only those that the log or the snapshot shows exist, as the README says.
"""
MOST_HISTORIES = 1024
"""Number of histories that a process caches: memory cannot hold all of a large log."""

_OPEN = Missing(
    "", "the log does not show the object before its first write", "give a snapshot taken before the log begins"
)
_NO_DELETIONS = CollectionDeletions()


def key_of(obj: JSON) -> ObjectKey:
    """Return the key of an API object."""
    metadata = obj.get("metadata") or {}
    group, _ = split_api_version(str(obj.get("apiVersion") or ""))
    return group, str(obj.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


Writes = Mapping[ObjectRef, Sequence[RequestRecord]]
"""Writes to each object, in order."""


class Cluster:
    """The objects of a snapshot and of audit records, each with its history."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that is known of a cluster
        self,
        snapshot: Iterable[JSON] = (),
        records: Writes | Iterable[RequestRecord] = (),
        clock: RevisionClock | None = None,
        timed: Callable[[RequestRecord], RequestRecord] | None = None,
        deletions: CollectionDeletions = _NO_DELETIONS,
        without_default: frozenset[GroupVersionKind] = frozenset(),
    ) -> None:
        """`records` are the writes to the kinds that decisions look up: namespaces, parameters, RBAC, CRDs.

        They are given by object, or in order. Those of an object are read on demand, and only the most recently used
        histories are cached. `timed` changes a record before use. `deletions` are the deletions of whole collections.
        `without_default` are class kinds for which the log shows that no object is the default; only default classes
        are ever listed.
        """
        self.snapshot = list(snapshot)
        self.clock = clock
        self.deletions = deletions
        self.without_default = without_default
        self._timed = timed
        self._objects = {key_of(obj): obj for obj in self.snapshot}
        self._covered = {key[:2] for key in self._objects}
        self._writes = records if isinstance(records, Mapping) else _records_by_object(records)
        self.discovery = builtin_discovery().with_crds(self._crds())
        self._keys: dict[tuple[str, str], dict[ObjectKey, ObjectRef | None]] = {}
        for key_at_place, key in self._written():
            self._keys.setdefault(key_at_place[:2], {})[key_at_place] = key
        # None says that only the snapshot has the object, so that the log has no writes to it.
        for key_at_place in self._objects:
            self._keys.setdefault(key_at_place[:2], {}).setdefault(key_at_place, None)
        self._history = lru_cache(MOST_HISTORIES)(self._history_of)
        """Returns the history of a known object."""
        self._listings: dict[tuple[GroupVersionKind, str | None], ListedObjects] = {}

    def _crds(self) -> list[JSON]:
        """Return the CustomResourceDefinitions of the log, then those of the snapshot.

        A later definition of the same name overrides or completes an earlier one.
        """
        records = [
            record
            for key, crds in self._writes.items()
            if key.resource == "customresourcedefinitions"
            for record in crds
        ]
        logged = (
            Exchange(r, builtin_discovery(), checked=True) for r in sorted(records, key=lambda r: (r.seq, r.audit_id))
        )
        crds = [
            exchange.response.json
            for exchange in logged
            if exchange.succeeded and isinstance(exchange.response.json, dict)
        ]
        return [obj for obj in (*crds, *self.snapshot) if (key_of(obj)[0], key_of(obj)[1]) == CRD]

    @property
    def crds(self) -> list[JSON]:
        """Return all known CustomResourceDefinitions, one per name: the snapshot's, otherwise the log's last."""
        states_by_name: dict[str, JSON] = {}
        for key in self._keys.get(CRD, {}):
            states = [effect.state for effect in self._history(key).effects if effect.state is not None]
            if states:
                states_by_name[key[3]] = states[-1]
        return [states_by_name[name] for name in sorted(states_by_name)]

    def schemas_of(self, workspace: str) -> Schemas:
        """Return the known fields of each kind in a kcp workspace; the same everywhere in other servers."""
        del workspace
        return self._schemas

    @cached_property
    def _schemas(self) -> Schemas:
        return Schemas(self.crds)

    def api_objects(self) -> list[JSON]:
        """Return the policies, bindings, webhook configurations and policy-engine objects of the snapshot."""
        return [obj for obj in self.snapshot if key_of(obj)[0] == ADMISSIONREGISTRATION or is_engine_object(obj)]

    def snapshot_object(self, group: str, kind: str, namespace: str, name: str) -> JSON:
        """Return the snapshot's version of one object, None if it has none."""
        return self._objects.get((group, kind, namespace, name))

    def in_workspace(self, workspace: str) -> Cluster:
        """Return the objects of a kcp workspace. Other servers have a single cluster."""
        del workspace
        return self

    def bindings_of(self, record: RequestRecord) -> APIBindings:
        """Return the APIBindings of a kcp request's workspace; empty in other servers."""
        del record
        return APIBindings()

    def required_groups(self, record: RequestRecord) -> str | Missing | None:
        """Return the group that a user must have in the workspace of a kcp request; None on other servers."""
        del record
        return None

    def at(self, record: RequestRecord) -> ClusterLister:
        """Return the cluster as a request found it."""
        return ClusterLister(self, record.received, record.stage_time)

    def keys(self, kind: GroupVersionKind) -> Collection[ObjectKey]:
        """Return the objects of a kind in any version."""
        return self._keys.get((kind.group, kind.kind), {})

    def history(self, kind: GroupVersionKind, namespace: str, name: str) -> History | None:
        """Return the history of an object, None if neither snapshot nor log has it."""
        key = (kind.group, kind.kind, namespace, name)
        return self._history(key) if key in self._keys.get(key[:2], ()) else None

    def listing(self, kind: GroupVersionKind, namespace: str | None) -> ListedObjects:
        """Return the objects of a kind in a namespace. None means all namespaces."""
        # It is put back below, so that the first one is always the least recently used.
        listing = self._listings.pop((kind, namespace), None)
        if listing is None:
            # This is the order of etcd's keys, in which the server lists.
            keys = sorted((key for key in self.keys(kind) if namespace in (None, key[2])), key=lambda key: key[2:])
            listing = ListedObjects(keys, map(self._history, keys))
            if len(self._listings) >= MOST_HISTORIES:
                del self._listings[next(iter(self._listings))]
        self._listings[kind, namespace] = listing
        return listing

    def is_written(self, kind: GroupVersionKind, namespace: str, name: str) -> bool:
        """Return whether the log has a write to a known object."""
        return self._keys[kind.group, kind.kind][kind.group, kind.kind, namespace, name] is not None

    def is_new_in_log(self, record: RequestRecord) -> bool:
        """Return whether everything in the request's namespace was created in the log, because the namespace was."""
        is_inside = bool(record.namespace) and record.resource != "namespaces"
        return is_inside and self.in_workspace(record.workspace).is_created_by(record.namespace, record.received)

    def is_created_by(self, namespace: str, at: int) -> bool:
        """Return whether the log shows that a namespace was created before a time (microseconds)."""
        history = self.history(NAMESPACE, "", namespace)
        return history is not None and any(
            effect.end <= at and _creates(history, place) for place, effect in enumerate(history.effects)
        )

    def writes(self, kind: GroupVersionKind, namespace: str, name: str) -> Sequence[RequestRecord]:
        """Return the log's writes to a known object."""
        key = self._keys[kind.group, kind.kind][kind.group, kind.kind, namespace, name]
        return self._writes[key] if key is not None else ()

    @cached_property
    def newest_revision(self) -> int:
        """The highest revision in the snapshot, which was taken at or after it. 0 if no object has one."""
        return max((revision(obj.get("metadata")) or 0 for obj in self.snapshot), default=0)

    def is_covered(self, kind: GroupVersionKind) -> bool:
        """Return whether the snapshot holds objects of a kind, and therefore counts as complete for it."""
        return (kind.group, kind.kind) in self._covered or kind in NONE_UNLESS_SHOWN

    def is_settled(self, kind: GroupVersionKind, at: int) -> bool:
        """Return whether all objects of a kind are known, and informers show their last state from a time on.

        The time is in microseconds.
        """
        settled = at - CACHE_DELAY
        return self.is_covered(kind) and all(self._history(key).settled_before(settled) for key in self.keys(kind))

    def _written(self) -> Iterator[tuple[ObjectKey, ObjectRef]]:
        """Yield the objects of the log.

        A resource that discovery lacks gets its kind from the first body that shows it.
        """
        kinds: dict[tuple[str, str], GroupVersionKind] = {}
        for key in self._writes:
            resource = key[:2]
            if resource not in kinds:
                exchanges = (Exchange(record, self.discovery, checked=True) for record in self._writes[key])
                kind = next((kind for exchange in exchanges if (kind := exchange.parent_kind) is not None), None)
                if kind is None:
                    continue
                kinds[resource] = kind
            yield (kinds[resource].group, kinds[resource].kind, key.namespace, key.name), key

    def _named(self, key: ObjectKey) -> ObjectRef:
        """Return the reference that a URL would give for an object.

        The resource is empty if the kind is not served.
        """
        kind = next((each for each in self.discovery if (each.kind.group, each.kind.kind) == key[:2]), None)
        return ObjectRef(key[0], kind.resource.resource if kind is not None else "", key[2], key[3])

    def _history_of(self, key: ObjectKey) -> History:
        written = self._keys[key[:2]][key]
        records = self._writes[written] if written is not None else ()
        exchanges = [Exchange(self._timed(r) if self._timed else r, self.discovery, checked=True) for r in records]
        exchanges_known = [exchange for exchange in exchanges if exchange.parent_kind is not None]
        collected = self.deletions.effects_on(written or self._named(key))
        return History(exchanges_known, self._objects.get(key), self.clock, collected=collected)


def _records_by_object(records: Iterable[RequestRecord]) -> Writes:
    """Return records by their object. A generated name is in the response."""
    records_by_object: dict[ObjectRef, list[RequestRecord]] = {}
    for record in records:
        name = record.name or str(Body(record.response_object).metadata.get("name") or "")
        if name:
            records_by_object.setdefault(object_ref(record, name), []).append(record)
    return records_by_object


_CHANGING = "another request changed the object at the same time"


class ListedObjects:
    """The objects of a kind in one or all namespaces, listed once for all requests between two writes."""

    def __init__(self, keys: Sequence[ObjectKey], histories: Iterable[History]) -> None:
        """Keep the objects.

        `keys` are all objects that ever existed, in list order. `histories` are their histories.
        """
        self.keys = keys
        effects = [effect for history in histories for effect in history.effects]
        self._starts = sorted(effect.start for effect in effects)
        self._ends = sorted(effect.end for effect in effects)
        self._writes = -1
        self._objects: Sequence[JSON] | Missing = ()

    def between(self, start: int, end: int, listed: Callable[[], Sequence[JSON] | Missing]) -> Sequence[JSON] | Missing:
        """Return what informers show from `start` to `end`. `listed` is called after writes since the last question."""
        writes = bisect_right(self._ends, start - CACHE_DELAY)
        if writes != bisect_right(self._starts, end):  # a write is under way, or not in all informers yet
            return listed()
        if writes != self._writes:
            self._objects, self._writes = listed(), writes
        return self._objects


class ClusterLister(Struct, frozen=True):
    """A `Lister` at the time of one request (microseconds)."""

    cluster: Cluster
    start: int
    end: int

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`. An object that was changing at the time is a `PartialObject`."""
        state = self.known(kind, namespace, name)
        return attribute(state, kind.kind) if state is not None else None

    def known(self, kind: GroupVersionKind, namespace: str, name: str) -> Known | Missing | None:
        """Return the object with the basis of that knowledge, or None if it is known not to exist."""
        history = self.cluster.history(kind, namespace, name)
        if history is None:
            if self.cluster.is_covered(kind) or self.cluster.is_created_by(namespace, self.start):
                return None
            return Missing(
                kind.kind,
                f"neither the snapshot nor the log has {kind.kind} `{_named(namespace, name)}`",
                "give a snapshot of the cluster (--cluster)",
            )
        state = history.settled(self.start - CACHE_DELAY)
        if state is None:  # as rarely: it was being written, or only later
            states = _states(history, self.start, self.end)
            state = merged(states, _CHANGING) if len(states) > 1 else states[0]
        if state is _OPEN and self.cluster.is_created_by(namespace, self.start):
            return None
        return None if isinstance(state, Known) and state.value is None else state

    def possibly_absent(self, kind: GroupVersionKind, namespace: str, name: str) -> PossiblyAbsent | None:
        """Return an object that was being created or deleted and is otherwise fully known, or None in other cases."""
        history = self.cluster.history(kind, namespace, name)
        states = _states(history, self.start, self.end) if history is not None else []
        there = [each for each in states if isinstance(each, Missing) or each.value is not None]
        if len(there) == len(states) or len(there) != 1 or isinstance(there[0], Missing) or there[0].holes:
            return None
        return PossiblyAbsent(kind.kind, _CHANGING, object=there[0].value)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        is_known = self.cluster.is_covered(kind) or kind in self.cluster.without_default
        if not is_known and not (namespace and self.cluster.is_created_by(namespace, self.start)):
            return Missing(
                kind.kind,
                f"the snapshot has no objects of kind {kind.kind}",
                "give a snapshot of the cluster (--cluster)",
            )
        listing = self.cluster.listing(kind, namespace)
        return listing.between(self.start, self.end, lambda: self._listed(kind, listing.keys))

    def _listed(self, kind: GroupVersionKind, keys: Iterable[ObjectKey]) -> Sequence[JSON] | Missing:
        objects = []
        for key in keys:
            state = self.known(kind, key[2], key[3])
            if isinstance(state, Missing):
                return Missing(kind.kind, state.reason, state.fix)
            if state is not None:
                objects.append(attribute(state, kind.kind))
        return tuple(objects)


def _named(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _states(history: History, start: int, end: int) -> list[Known | Missing]:
    """Return the states that informers may have shown: the stored one, or one stored a moment before.

    Before its first effect an object is absent if that effect created it. An absent namespace is looked up in the
    storage (`matching.Matcher`), so that an object exists from its creation on.
    """
    places = [place for place in history.window(start - CACHE_DELAY, end) if place >= 0]
    settled = history.window(start, end)
    if not places:
        return [_before_all(history)]
    # A missing namespace is looked up in storage, so an informer cannot hide its creation.
    if len(places) > 1 and _is_absent(history, places[0]) and settled[0] >= places[1]:
        places = places[1:]
    if settled[0] < 0 and not _creates(history, 0):
        return [
            Missing("", "another request changed the object at the same time, and the log does not show it before that")
        ]
    states = [history.after(place) for place in places]
    if _is_absent(history, places[-1]) and len(places) > 1:
        states = states[:-1]
    return states


def _before_all(history: History) -> Known | Missing:
    """Return the state before the first effect: absent if that effect creates the object."""
    if history.effects and _creates(history, 0):
        return Known(None, Basis.RECORDED)
    return _OPEN


def _is_absent(history: History, place: int) -> bool:
    return history.effects[place].kind is EffectKind.GONE


def _creates(history: History, place: int) -> bool:
    """Return whether an effect is the creation of the object."""
    effect = history.effects[place]
    # An apply may create the object too, so the status decides and not the verb.
    return effect.exchange is not None and effect.exchange.record.code == CREATED
