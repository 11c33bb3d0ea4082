"""The consequences of a candidate, over all parts of a store.

Only what differs is followed: the objects with a finding, all that stands in a namespace that differs, and what is owned by what is
not there. Namespaces come first, since all else in them depends on them; then objects; then, wave by wave, what they own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import orjson

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.audit.part import StorePart
from replay.audit.place import Place
from replay.audit.store import Store
from replay.compare.subject import Subject
from replay.compare.world_facts import WorldFacts
from replay.kube.admissionregistration import ManifestSet
from replay.kube.lister import Lister
from replay.kube.schema import Schemas
from replay.matching.coarse import Predicate
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.replayer import STORING, as_far_as_reached
from replay.pipeline.replay.totals import ClassResult
from replay.pipeline.replay.workers import Progress, Workers, replay_parts
from replay.reconstruct.request import ReplayRequest
from replay.world.collection import Collections
from replay.world.controller import Retry, attempts
from replay.world.elsewhere import COUNTED, Elsewhere
from replay.world.judge import Judge
from replay.world.result import NOT_SENT, Cause, Consequence
from replay.world.timeline import Change, OwnerChange, Presence
from replay.world.walk import Surroundings, Walked, Walker

FEW_OBJECTS = 200
"""So many objects are walked here and now sooner than workers are started for them."""
TICKS = 1024
"""How many numbers of requests a microsecond has."""
MICROSECONDS = 1_000_000
MOST_WAVES = 6
"""How deep owners are followed: a CronJob's pods are at depth two."""
_RANK: dict[str, int] = {cause: rank for rank, cause in enumerate((Cause.DENIED, Cause.UNKNOWN, Cause.NOT_SENT))}
"""Of the objects of a collection the one that ends first in this order says how the request ends."""
_BETWEEN = "\x1f"
_KEY = "concat_ws(chr(31), api_group, resource, if(resource = 'namespaces' and api_group = '', '', \"namespace\"), object_name)"
_WRITES = (
    "(verb in ('create', 'update', 'patch', 'delete') or subresource in ('attach', 'exec', 'portforward', 'proxy'))"
)
_AMONG = "(select unnest(from_json(?, '[\"VARCHAR\"]')))"


@dataclass
class World:
    """The consequences of a candidate by place, and of whole collections by the number of their request."""

    consequences: dict[Place, Consequence] = field(default_factory=dict)

    collections: dict[int, Consequence] = field(default_factory=dict)

    def consequence(self, place: Place) -> Consequence | None:
        """What becomes of a request; of a `deletecollection` all objects end as the request does."""
        return self.collections.get(place.seq) or self.consequences.get(place)

    @property
    def facts(self) -> WorldFacts:
        """What a report counts."""
        return WorldFacts.of(self.consequences.values())

    def add(self, found: Iterable[Consequence]) -> None:
        """Take over what a later wave knows better."""
        for each in found:
            self.consequences[each.place] = each
            if each.of_collection:
                known = self.collections.get(each.place.seq)
                if known is None or _RANK.get(each.result.cause, len(_RANK)) < _RANK.get(
                    known.result.cause, len(_RANK)
                ):
                    self.collections[each.place.seq] = each


def key_of(about: Subject) -> str:
    """An object as the queries name it; empty where it has no name."""
    return _BETWEEN.join(about) if about.name else ""


@dataclass(frozen=True)
class WorldJob:
    """The walk of some objects, part by part."""

    job: Job
    keys: frozenset[str]
    namespaces: frozenset[str]
    around: Surroundings
    nameless: frozenset[str] = frozenset()
    """The audit ids of requests about objects that never got a name."""

    def run(self, part: StorePart) -> Walked:
        """Walk the objects of one part; the changes are those of namespaces, by name."""
        walker = walker_of(self.job, self.around)
        found = Walked()
        for records in part.objects(self._predicate):
            walked = walker.walk(records)
            found.consequences += walked.consequences
            if walked.changes and records[0].resource == "namespaces" and not records[0].api_group:
                found.namespaces[records[0].name] = walked.changes
            found.owners.update((uid, changes) for uid, changes in walked.owners.items() if changes)
        self.job.webhooks.close()
        return found

    @property
    def _predicate(self) -> Predicate:
        wanted = [f"(object_name <> '' and {_KEY} in {_AMONG})", f"(object_name = '' and audit_id in {_AMONG})"]
        values = [self.keys, self.nameless]
        if self.namespaces:
            wanted.append(f"(object_name <> '' and resource <> 'namespaces' and \"namespace\" in {_AMONG})")
            values.append(self.namespaces)
        parameters = tuple(orjson.dumps(sorted(each)).decode() for each in values)
        return Predicate(f"({_WRITES} and ({' or '.join(wanted)}))", parameters)


def walker_of(job: Job, around: Surroundings) -> Walker:
    """What follows objects through the candidate's world; its policies are asked apart from those of the current set."""
    schemas = Schemas(job.cluster.crds)
    alone = Chain((ManifestSet(), job.asked[1]), job.version, job.cluster.discovery, schemas)
    replayer = job.replayer

    def decide(request: ReplayRequest, lister: Lister) -> Sequence[Decision]:
        return as_far_as_reached(request, replayer.decide(request, lister))

    judge = Judge(job.chain, alone, decide, job.webhooks.backends, schemas)
    candidate = repr(job.asked[1])
    unread = frozenset(name for name in COUNTED if name not in candidate)
    return Walker(job.reconstructor, judge, Elsewhere(job.reconstructor, alone.patchers, unread), around)


def world_of(
    store: Store, ready: Callable[[], Job], classes: Iterable[ClassResult], options: Workers, progress: Progress
) -> World:
    """What follows from what a run found; `ready` makes the job, with the history of what decisions look up."""
    world = World()
    results = list(classes)
    keys: set[str] = {key_of(about) for result in results for about in result.totals.barred} - {""}
    nameless: set[str] = set()
    numbers: dict[int, int] = {}
    for pending in (pending for result in results for pending in result.findings()):
        if pending.finding.key.outcome in STORING:
            numbers[pending.place.seq] = pending.denied
            key = key_of(pending.subject)
            (keys if key else nameless).add(key or pending.finding.example.audit_id)
    if not keys and not nameless:
        return world
    job = ready()
    collections = Collections.of(store.collections(), job.cluster.discovery)
    stage = _Stage(store, options, progress, world)
    own = frozenset(key for key in keys if key.startswith(f"{_BETWEEN}namespaces{_BETWEEN}"))
    namespaces: dict[str, list[Change]] = {}
    if own:
        for walked in stage.run(
            WorldJob(job, own, frozenset(), Surroundings(collections, numbers, barred=job.gate.refused))
        ):
            namespaces.update(walked.namespaces)
    around = Surroundings(collections, numbers, namespaces, barred=job.gate.refused)
    wave = WorldJob(job, frozenset(keys - own), frozenset(namespaces), around, frozenset(nameless))
    owners: dict[str, list[OwnerChange]] = {}
    for _ in range(MOST_WAVES):
        for walked in stage.run(wave):
            owners.update(walked.owners)
        owned = frozenset(_owned(store, owners)) - wave.keys
        if not owned:
            break
        wave = WorldJob(job, owned, frozenset(), replace(wave.around, owners=owners))
    _retried(store, world)
    return world


@dataclass(frozen=True)
class _Stage:
    store: Store
    options: Workers
    progress: Progress
    world: World

    def run(self, job: WorldJob) -> Iterator[Walked]:
        self.store.rest()
        is_few = len(job.keys) + len(job.nameless) < FEW_OBJECTS and not job.namespaces
        parts = [self.store.whole()] if is_few else [self.store.part(number) for number in range(self.store.parts)]
        for walked in replay_parts(job, parts, self.options, self.progress):
            self.world.add(walked.consequences)
            yield walked


def _retried(store: Store, world: World) -> None:
    """Make one finding of what a controller tries again and again for one owner; the rest of its batch is not sent."""
    by_owner: dict[Retry, list[Consequence]] = {}
    for place in sorted(world.consequences):
        found = world.consequences[place]
        if found.retry is not None:
            by_owner.setdefault(found.retry, []).append(found)
    if not by_owner:
        return
    uids = orjson.dumps([retry.owner for retry in by_owner]).decode()
    ends = {str(uid): int(end) for uid, end in store.query("owner_ends", uids=uids).rows()}
    last = max(place.seq for place in world.consequences) // TICKS
    for retry, (first, *others) in by_owner.items():
        seconds = (ends.get(retry.owner, last) - first.place.seq // TICKS) / MICROSECONDS
        if first.result.cause != Cause.SUCCEEDS:
            world.consequences[first.place] = first._replace(repetitions=attempts(retry, seconds))
        blame = first.follows or first.own
        for other in others:
            world.consequences[other.place] = other._replace(result=NOT_SENT, follows=blame, root=False, denials=None)


def _owned(store: Store, owners: dict[str, list[OwnerChange]]) -> Sequence[str]:
    """The keys of what is owned by what differs in being there."""
    differing = [uid for uid, changes in owners.items() if any(each.presence is not Presence.SAME for each in changes)]
    if not differing:
        return ()
    rows = store.query("owned", uids=orjson.dumps(differing).decode())
    return [str(row[0]) for row in rows.rows()]
