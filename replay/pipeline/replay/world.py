"""The consequences of a candidate, over all parts of a store.

Only what differs is followed: the objects with a finding, all that stands in a namespace that differs, and what is owned by what is
not there. Namespaces come first, since all else in them depends on them; then objects; then, wave by wave, what they own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import orjson

from replay.audit.ingest import Progress
from replay.audit.part import StorePart
from replay.audit.place import Place
from replay.audit.store import Store
from replay.compare.subject import Subject
from replay.compare.world_facts import WorldFacts
from replay.matching.coarse import Predicate
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.ownership import Ownership
from replay.pipeline.replay.replayer import STORING
from replay.pipeline.replay.totals import ClassResult
from replay.pipeline.replay.workers import Crew
from replay.world.collection import Collections
from replay.world.controller import REPLICASET_CONTROLLER, Retry, attempts, retry_of
from replay.world.made import Refused
from replay.world.namespace import Namespaces
from replay.world.result import NOT_SENT, Alone, Cause, Consequence
from replay.world.timeline import OwnerChange
from replay.world.walk import Surroundings, Walked, Walker

FEW_OBJECTS = 200
"""So many objects are walked here and now sooner than workers are started for them."""
TICKS = 1024
"""How many numbers of requests a microsecond has."""
MICROSECONDS = 1_000_000
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
    refused: list[int] = field(default_factory=list)
    """How often pods are tried of each ReplicaSet that is in this world alone, and whose pods are refused."""

    def consequence(self, place: Place) -> Consequence | None:
        """What becomes of a request; of a `deletecollection` all objects end as the request does."""
        return self.collections.get(place.seq) or self.consequences.get(place)

    @property
    def facts(self) -> WorldFacts:
        """What a report counts."""
        return WorldFacts.of(self.consequences.values(), self.refused)

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
class Wave:
    """Objects to walk by key, and requests about objects that never got a name by audit id."""

    keys: frozenset[str]
    around: Surroundings
    nameless: frozenset[str] = frozenset()

    @property
    def predicate(self) -> Predicate:
        """The requests about them."""
        parameters = tuple(orjson.dumps(sorted(each)).decode() for each in (self.keys, self.nameless))
        named = f"object_name <> '' and {_KEY} in {_AMONG}"
        return Predicate(f"({_WRITES} and ({named} or (object_name = '' and audit_id in {_AMONG})))", parameters)


@dataclass(frozen=True)
class Walk:
    """The walk of a wave, part by part."""

    wave: Wave

    def run(self, job: Job, part: StorePart) -> Walked:
        """Walk the objects of one part; the changes are those of namespaces, by name."""
        walker = Walker(job.reconstructor, job.judge, job.elsewhere, self.wave.around)
        found = Walked()
        for records in part.objects(self.wave.predicate):
            walked = walker.walk(records)
            found.consequences += walked.consequences
            found.refused += walked.refused
            if walked.changes and records[0].resource == "namespaces" and not records[0].api_group:
                found.namespaces[records[0].name] = walked.changes
            found.owners.update((uid, changes) for uid, changes in walked.owners.items() if changes)
        job.webhooks.close()
        return found


def world_of(store: Store, crew: Crew[Job], classes: Iterable[ClassResult], progress: Progress) -> World:
    """What follows from what a run found; the job of the crew has the history of what decisions look up."""
    world = World()
    results = list(classes)
    keys: set[str] = {key_of(about) for result in results for about in result.totals.barred} - {""}
    nameless: set[str] = set()
    numbers: dict[int, Alone | None] = {}
    storing = [result for result in results if any(result.totals.summary.outcomes[kind] for kind in STORING)]
    for pending in (pending for result in storing for pending in result.findings()):
        if pending.finding.key.outcome in STORING:
            numbers[pending.place.seq] = pending.alone
            key = key_of(pending.subject)
            (keys if key else nameless).add(key or pending.finding.example.audit_id)
    if not keys and not nameless:
        return world
    job = crew.job
    found = Collections.of(store.collections(), job.cluster.discovery)
    around = Surroundings(found, numbers, barred=job.gate.refused)
    stage = _Stage(store, crew, progress, world)
    own = frozenset(key for key in keys if key.startswith(f"{_BETWEEN}namespaces{_BETWEEN}"))
    if own:
        walks = stage.run(Wave(own, around))
        around = replace(around, namespaces={name: found for each in walks for name, found in each.namespaces.items()})
    _spread(stage, Wave(frozenset(keys - own), around, frozenset(nameless)))
    _retried(store, world)
    return world


def _spread(stage: _Stage, first: Wave) -> None:
    """Walk each object once, after all that may own it; what owners make comes into it where they differ."""
    ownership = Ownership.of((row[0], row[1], row[2]) for row in stage.store.query("owned").rows())
    wanted, walked = {*first.keys, *_in_namespaces(stage.store, first.around.namespaces)}, set[str]()
    owners: dict[str, list[OwnerChange]] = {}
    owning = frozenset(ownership.keys)
    deepest = max(ownership.depths.values(), default=0)
    for depth in range(deepest + 1):
        now = frozenset(key for key in wanted - walked if ownership.depths.get(key, 0) <= depth)
        walked |= now
        nameless = first.nameless if depth == deepest else frozenset[str]()
        around = replace(first.around, owners=owners, owned=ownership.of_objects(now), owning=owning)
        for found in stage.run(Wave(now, around, nameless)):
            owners.update(found.owners)
            wanted |= ownership.owned_by(found.owners)


def _in_namespaces(store: Store, namespaces: Namespaces) -> Iterator[str]:
    """The keys of all that stands in some namespaces."""
    if namespaces:
        rows = store.query("in_namespaces", namespaces=orjson.dumps(sorted(namespaces)).decode())
        yield from (str(row[0]) for row in rows.rows())


@dataclass(frozen=True)
class _Stage:
    """Where waves are walked, and what becomes of them."""

    store: Store
    crew: Crew[Job]
    progress: Progress
    world: World

    def run(self, wave: Wave) -> list[Walked]:
        if not wave.keys and not wave.nameless:
            return []
        self.store.rest()
        is_few = len(wave.keys) + len(wave.nameless) < FEW_OBJECTS
        parts = [self.store.whole()] if is_few else [self.store.part(number) for number in range(self.store.parts)]
        found = self.crew.run(Walk(wave), parts, self.progress)
        for walked in found:
            self.world.add(walked.consequences)
        for seconds in _seconds([each for walked in found for each in walked.refused], self.store):
            self.world.refused.append(attempts(retry_of(REPLICASET_CONTROLLER, ""), seconds))
        return found


def _seconds(refused: Iterable[Refused], store: Store) -> Iterator[float]:
    """How long pods of ReplicaSets are refused; the end of the log is asked for where it counts."""
    end = cache(lambda: int(store.answer("log_end")[0][0]))
    for each in refused:
        until = end() if each.until is None else each.until // TICKS
        yield (until - each.since // TICKS) / MICROSECONDS


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
