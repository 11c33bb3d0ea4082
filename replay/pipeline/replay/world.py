"""Consequences of a candidate, over all parts of a store.

Only differences are followed: objects with a finding, everything in a differing namespace, and objects of missing
owners. Namespaces come first, then objects, then wave by wave the objects that they own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from replay.audit import queries
from replay.audit.event import RequestRecord
from replay.audit.ingest import Progress
from replay.audit.part import StorePart
from replay.audit.place import BETWEEN, TICKS, LogPosition, is_named, object_place, stored_key
from replay.audit.store import Store
from replay.compare.result import WorldFacts
from replay.kube.gvk import ObjectRef
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.kept_walk import KeptWalks, WaveWalks
from replay.pipeline.replay.replayer import Line
from replay.pipeline.replay.traced_walk import ObjectWalk, Tracer
from replay.pipeline.replay.workers import WorkerPool
from replay.world.collection import Collection as DeletedCollection
from replay.world.controller import Retry, attempts, is_controller, retry_of
from replay.world.lookup import LookupsInTime
from replay.world.namespace import namespace_key
from replay.world.ownership import Ownership
from replay.world.pod import RefusedPods, template_key
from replay.world.reach import (
    LogAnswers,
    dependent,
    followed_collections,
    gated_objects,
    in_collections,
    in_namespaces,
    looked_up_kinds,
    object_key,
    searched_namespaces,
)
from replay.world.result import (
    FORBIDDEN,
    NOT_SENT,
    Cause,
    CausingRequest,
    Consequence,
    IsolatedEnd,
    RequestEnd,
    result_of,
)
from replay.world.timeline import OwnerChange
from replay.world.walk import WalkContext, Walker, WalkResult

FEW_OBJECTS = 200
"""Number of objects below which this process walks them itself."""
MICROSECONDS = 1_000_000
_RANK: dict[str, int] = {cause: rank for rank, cause in enumerate((Cause.DENIED, Cause.UNKNOWN, Cause.NOT_SENT))}
"""Order of ends: the first among a collection's objects is the request's end."""


_FORBIDDEN = Consequence(FORBIDDEN, root=True)
"""The end of a request that the authorizers deny."""


class World(Struct):
    """The consequences of a candidate by position, and of whole deleted collections by request number.

    `ends` has one for each request that differs. Its key is the position, or only the sequence number for the first
    object of a request, which takes half the memory.
    """

    ends: dict[int | LogPosition, Consequence] = field(default_factory=dict)
    collections: dict[int, Consequence] = field(default_factory=dict)
    first_denials: dict[int, str] = field(default_factory=dict)
    """The name of the first object that is denied, by the number of its collection's request."""
    refused: list[int] = field(default_factory=list)
    """Numbers of attempts to create pods that are denied, for objects that exist only under the candidate."""
    lines: list[Line] = field(default_factory=list)
    """Lines of empty collections that end differently. No other line shows them."""
    forbidden: frozenset[int] = frozenset()
    """The numbers of the requests that the candidate's authorizers deny."""
    denied_in_both: Counter[str] = field(default_factory=Counter)
    """The numbers of requests for an owner (by UID) that were denied in the log and under the candidate alike."""
    shown_ends: dict[LogPosition, RequestEnd] = field(default_factory=dict)
    """Ends that `--outcomes` shows instead, for requests whose object may differ since before the log."""

    def consequence(self, place: LogPosition) -> Consequence | None:
        """Return the consequence of a request. All objects of a `deletecollection` share it."""
        known = self.collections.get(place.seq) or self.ends.get(place if place.item else place.seq)
        return known or (_FORBIDDEN if place.seq in self.forbidden else None)

    def causing_request(self, place: LogPosition) -> CausingRequest | None:
        """Return the request that a finding follows from, or None for a direct finding.

        INVARIANT: what reports count and what the lines of `--outcomes` say of direct findings is decided here alone.
        """
        consequence = self.consequence(place)
        return consequence.follows if consequence is not None else None

    def differs_without_items(self, collection: DeletedCollection) -> bool:
        """Return whether an empty collection ends differently."""
        consequence = self.collections.get(collection.record.seq)
        return consequence is not None and consequence.differs and not collection.names and not collection.is_refused

    @property
    def facts(self) -> WorldFacts:
        """Return the counts for a report."""
        return WorldFacts.from_consequences(self.ends.values(), self.refused, self.denied_in_both.values())

    def put(self, place: LogPosition, consequence: Consequence) -> None:
        """Set the consequence of a request."""
        self.ends[place if place.item else place.seq] = consequence

    def consequences(self) -> Iterator[tuple[LogPosition, Consequence]]:
        """Yield all consequences of single objects."""
        for key, each in self.ends.items():
            yield _position(key), each

    def add(self, consequences: Iterable[tuple[LogPosition, Consequence]]) -> None:
        """Add the consequences of a wave. They replace those of earlier waves."""
        for place, each in consequences:
            self.ends[place if place.item else place.seq] = each
            if not each.item:
                continue
            if each.result.cause == Cause.DENIED:
                # The server deletes in the order of names and stops at the first denial.
                self.first_denials[place.seq] = min(each.item, self.first_denials.get(place.seq, each.item))
            earlier = self.collections.get(place.seq)
            if earlier is None or _RANK.get(each.result.cause, len(_RANK)) < _RANK.get(
                earlier.result.cause, len(_RANK)
            ):
                self.collections[place.seq] = each


def _position(key: int | LogPosition) -> LogPosition:
    """Return the position of a key of `World.ends`."""
    return LogPosition(key, 0) if isinstance(key, int) else key


class Wave(Struct, frozen=True):
    """Objects to walk, by key."""

    keys: frozenset[str]
    context: WalkContext
    divergence: Divergence
    ownership: Ownership | None = None
    """Owners of objects whose owners may differ."""

    @property
    def is_walked_here(self) -> bool:
        """Return whether this process walks the objects itself."""
        return len(self.keys) < FEW_OBJECTS

    def portions(self, parts: Sequence[StorePart]) -> list[Portion]:
        """Return the objects to walk in each part, without empty parts."""
        places = {key: object_place(key.split(BETWEEN), len(parts)) for key in self.keys}
        part_of = {key: place.part for key, place in places.items()}
        owned = dict(self.ownership.by_group(part_of)) if self.ownership is not None else {}
        keys_of_part: dict[int, list[str]] = {}
        for key, number in part_of.items():
            keys_of_part.setdefault(number, []).append(key)
        # A collection request may meet objects of every part.
        collections = self.divergence.isolated_ends(each.record.seq for each in self.context.collections.all)
        portions = []
        for part in parts:
            if keys := keys_of_part.get(part.number):
                identities = sorted(places[key].identity for key in keys)
                findings = self.divergence.isolated_ends(
                    seq for key in keys for seq in self.divergence.objects.get(key, ())
                )
                portions.append(Portion(part, identities, {**collections, **findings}, owned.get(part.number, {})))
        return portions


class Portion(NamedTuple):
    """The objects to walk in one part, with the facts about that part alone.

    So the data for a worker grows with a part, not with the log. `identities` are those of the objects. For the other
    fields see `WalkContext`.
    """

    part: StorePart
    identities: list[int]
    findings: dict[int, IsolatedEnd | None]
    owned: dict[str, tuple[str, ...]]

    def shares(self, total: int) -> list[Portion]:
        """Return the objects in `total` shares."""
        return [self._replace(identities=self.identities[number::total]) for number in range(total)]


class Walk(NamedTuple):
    """The task of walking a wave. `context` is the context that all its objects share."""

    context: WalkContext
    is_traced: bool = False
    """A flag that the questions of the walks are recorded."""

    def run(self, job: Job, portion: Portion) -> list[ObjectWalk]:
        """Walk the objects of one part, in their order."""
        tracer = Tracer(job, self.context.owners) if self.is_traced else None
        judge, owners = (tracer.judge, tracer.owners) if tracer is not None else (job.judge, self.context.owners)
        context = replace(self.context, findings=portion.findings, owned=portion.owned, owners=owners)
        walker = Walker(job.reconstructor, judge, job.request_adapter, context, before_log=job.before_log)
        shared: dict[Consequence, Consequence] = {}
        walks = []
        for identity, records in portion.part.writes(portion.identities):
            walked = self._named(records[0], walker.walk(records), shared)
            since = min(record.seq for record in records if record.selected)
            walks.append(ObjectWalk(identity, since, walked, *(tracer.take() if tracer is not None else ())))
        job.webhooks.close()
        return walks

    def _named(self, first: RequestRecord, walked: WalkResult, shared: dict[Consequence, Consequence]) -> WalkResult:
        """Return the result of an object, under the names that others use."""
        named = WalkResult(shown_ends=walked.shown_ends, refused=walked.refused)
        named.consequences = [(place, shared.setdefault(each, each)) for place, each in walked.consequences]
        if walked.changes and first.resource == "namespaces" and not first.api_group:
            named.namespaces[namespace_key(first.name, first.workspace)] = walked.changes
        elif walked.changes and first.name and not first.workspace:
            kind = self.context.kinds[first.api_group, first.resource]
            named.objects[object_key(first, kind)] = walked.changes
        named.owners = {uid: changes for uid, changes in walked.owners.items() if changes}
        return named


def world_of(
    answers: LogAnswers,
    worker_pool: WorkerPool[Job],
    divergence: Divergence,
    progress: Progress,
    archive: KeptWalks | None = None,
) -> World:
    """Return the consequences of the findings.

    The job of the worker pool must have the history of looked-up objects. Walks in `archive` need not be done again.
    """
    job, store = worker_pool.job, answers.store
    gated = gated_objects(store, job.gate)
    divergence.add_objects(gated.keys)
    if not divergence.objects:
        return World(forbidden=job.gate.refused)
    collections = followed_collections(answers.collections_with(job.gate), job, divergence.numbers)
    context = WalkContext(
        collections,
        refused_writes=job.gate.refused,
        newly_allowed=job.gate.newly_allowed,
        unknown=job.gate.unknown,
        unnamed_creations=gated.unnamed_creations,
        kinds=looked_up_kinds(job),
    )
    refused = [each for each in collections.all if each.record.seq in job.gate.refused]
    divergence.add_objects(key for each in refused for key in _deleted_keys(each))
    first = Wave(in_collections(store, collections, {}) | divergence.objects.keys(), context, divergence)
    world = _followed(_Stage(answers, worker_pool, progress, World(), archive), first)
    if stops := world.first_denials:
        # The objects that a collection leaves, because it stops early, are known only now.
        keys = first.keys | in_collections(store, collections, stops)
        again = Wave(keys, replace(context, first_denials=stops), divergence)
        world = _followed(_Stage(answers, worker_pool, progress, World(), archive), again)
    world.forbidden = job.gate.refused
    _retried(store, world)
    _count_denied_in_both(store, world)
    store.rest()  # the merge needs its memory
    if job.with_lines:
        world.lines = [
            job.replayer.unread_line(each.record) for each in collections.all if world.differs_without_items(each)
        ]
    return world


def _deleted_keys(collection: DeletedCollection) -> Iterator[str]:
    """Yield the keys of the objects that a collection deleted in the log."""
    record = collection.record
    for name in collection.names:
        yield stored_key(ObjectRef(record.api_group, record.resource, record.namespace, name, record.workspace))


def _followed(stage: _Stage, first: Wave) -> World:
    """Walk namespaces that differ, then looked-up objects, then all others, and return the consequences."""
    context, keys = first.context, first.keys
    own = _keys_of_kinds(keys, {("", "namespaces")})
    if own:
        context = replace(context, namespaces=stage.run(Wave(own, context, first.divergence)).namespaces)
        keys |= frozenset(in_namespaces(stage.store, context.namespaces))
    if looked_up := _keys_of_kinds(keys, context.kinds.keys() - {("", "namespaces")}):
        changes = stage.run(Wave(looked_up, context, first.divergence)).objects
        context = replace(context, objects=LookupsInTime(changes, searched_namespaces(stage.worker_pool.job)))
        keys |= dependent(stage.store, stage.worker_pool.job, changes)
    stage.store.rest()  # there are few queries between waves
    _spread(stage, Wave(keys - own, context, first.divergence))
    return stage.world


def _keys_of_kinds(keys: Iterable[str], resources: Container[tuple[str, str]]) -> frozenset[str]:
    """Return the keys of objects of some resources.

    Objects that never got a name are left out, since nothing can depend on them.
    """
    return frozenset(key for key in keys if tuple(key.split(BETWEEN, 2)[:2]) in resources and is_named(key))


def _spread(stage: _Stage, first: Wave) -> None:
    """Walk each object once, after all objects that may own it. Objects whose owners differ are added."""
    ownership = stage.answers.ownership
    keys = set(first.keys)
    walked = set[str]()
    owners: dict[str, list[OwnerChange]] = {}
    workload_of_body = ownership.owner_uids
    # An object is walked after its owners, because its walk reads how they differ.
    for depth in range(ownership.deepest + 1):
        now = frozenset(keys - walked - ownership.deeper(keys, depth))
        walked |= now
        context = replace(first.context, owners=owners, owner_uids=workload_of_body)
        changes = stage.run(Wave(now, context, first.divergence, ownership)).owners
        owners.update(changes)
        keys |= ownership.owned_by(changes)
    if stage.worker_pool.job.with_lines:
        # Only `--outcomes` shows what objects from before the log change.
        older = frozenset(str(row[0]) for row in stage.store.rows(queries.text("older")))
        context = replace(first.context, owners=owners, owner_uids=workload_of_body, differs_only_before_log=True)
        stage.run(Wave(older - walked, context, first.divergence, ownership))


class _Stage(Struct, frozen=True):
    """The place where waves are walked, and their results."""

    answers: LogAnswers
    worker_pool: WorkerPool[Job]
    progress: Progress
    world: World
    archive: KeptWalks | None = None
    shared: dict[Consequence, Consequence] = field(default_factory=dict)
    """Shared equal consequences, because each part makes its own."""

    @property
    def store(self) -> Store:
        """Return the log's store."""
        return self.answers.store

    def run(self, wave: Wave) -> WalkResult:
        """Walk a wave, add its consequences, and return its changes."""
        changes = WalkResult()
        if not wave.keys:
            return changes
        with closing(self._walks(wave)) as walks:
            for walk in walks:
                walked = walk.walked
                self.world.add(walked.consequences)
                self.world.shown_ends.update(walked.shown_ends)
                changes.refused += walked.refused
                changes.namespaces |= walked.namespaces
                changes.objects |= walked.objects
                changes.owners |= walked.owners
        refused = _without_logged(changes.refused, self.store)
        for username, seconds in _seconds(refused, self.store):
            self.world.refused.append(attempts(retry_of(username, ""), seconds))
        return changes

    def _walks(self, wave: Wave) -> Generator[ObjectWalk, None, None]:
        """Yield all walks of a wave, part by part, or in log order for few objects."""
        if self.archive is None or wave.ownership is None:
            yield from self._walk(wave)
            return
        parts = 1 if wave.is_walked_here else self.store.parts
        walks = WaveWalks(self.archive, wave.keys, wave.context, wave.divergence, parts)
        rest = replace(wave, keys=walks.missing)
        with closing(self._walk(rest, is_traced=True)) as missing:
            # The new walks come in the order of the saved ones only if both are split alike.
            yield from walks.all(missing, in_order=rest.is_walked_here == wave.is_walked_here)

    def _walk(self, wave: Wave, *, is_traced: bool = False) -> Generator[ObjectWalk, None, None]:
        """Walk all objects of a wave."""
        if not wave.keys:
            return
        if wave.is_walked_here:
            places = (object_place(key.split(BETWEEN), self.store.parts) for key in wave.keys)
            parts = [self.store.whole({place.part for place in places})]
        else:
            parts = list(map(self.store.part, range(self.store.parts)))
        portions = self.worker_pool.shared(wave.portions(parts))
        with closing(self.worker_pool.results(Walk(wave.context, is_traced), portions, self.progress)) as results:
            pairs = zip(portions, results, strict=True)
            # The shares of one part are walked side by side, so their walks are merged in log order.
            for _, of_part in groupby(pairs, key=lambda pair: pair[0].part.number):
                for walk in merge(*(walks for _, walks in of_part), key=attrgetter("since", "identity")):
                    consequences = walk.walked.consequences
                    walk.walked.consequences = [
                        (place, self.shared.setdefault(each, each)) for place, each in consequences
                    ]
                    yield walk


def _without_logged(refused: list[RefusedPods], store: Store) -> list[RefusedPods]:
    """Return those for whose template the log has no ReplicaSet of the same Deployment."""
    if not (uids := sorted({uid for each in refused for uid in each.deployments})):
        return refused
    rows = store.query("replicaset_templates", uids=orjson.dumps(uids).decode()).rows()
    logged = {(uid, template_key(orjson.loads(template))) for uid, template in rows}
    return [each for each in refused if logged.isdisjoint((uid, each.template) for uid in each.deployments)]


def _seconds(refused: Iterable[RefusedPods], store: Store) -> Iterator[tuple[str, float]]:
    """Yield to which user and for how many seconds pods are denied. Reads the end of the log if needed."""
    end = cache(lambda: int(store.answer("log_end")[0][0]))
    for each in refused:
        until = end() if each.until is None else each.until // TICKS
        yield each.username, (until - each.since // TICKS) / MICROSECONDS


def _count_denied_in_both(store: Store, world: World) -> None:
    """Count controllers' requests that are denied in the log and under the candidate."""
    for seq, username, code, message, reason, owner in store.frame("refused_creations").iter_rows():
        if not is_controller(username) or result_of(code, message, reason).cause not in (Cause.DENIED, Cause.INVALID):
            continue
        consequence = world.ends.get(seq)
        if consequence is None or not (consequence.differs or consequence.repetitions):
            world.denied_in_both[owner] += 1


def _retried(store: Store, world: World) -> None:
    """Merge a controller's repeated attempts for one owner into one finding. The rest of its batch is not sent."""
    by_owner: dict[Retry, list[tuple[LogPosition, Consequence]]] = {}
    tried = [(_position(key), each) for key, each in world.ends.items() if each.retry is not None]
    for place, consequence in sorted(tried, key=itemgetter(0)):
        if consequence.retry is not None:
            by_owner.setdefault(consequence.retry, []).append((place, consequence))
    if not by_owner:
        return
    uids = orjson.dumps([retry.owner for retry in by_owner]).decode()
    ends = {str(uid): int(end) for uid, end in store.frame("owner_ends", uids=uids).rows()}
    # If the log does not show the end of an owner, its controller tries until the last consequence.
    last = max(key if isinstance(key, int) else key.seq for key in world.ends) // TICKS
    for retry, ((first_place, first), *others) in by_owner.items():
        seconds = (ends.get(retry.owner, last) - first_place.seq // TICKS) / MICROSECONDS
        if first.result.cause != Cause.SUCCEEDS:
            world.put(first_place, first._replace(repetitions=attempts(retry, seconds)))
        causing_request = first.follows or first.own
        for place, other in others:
            world.put(place, other._replace(result=NOT_SENT, follows=causing_request, root=False, denials=None))
