"""Walks kept beside a store: what became of one object, and all that this depended on.

A walk writes down what it asks: of which classes of requests it wanted decisions, what it was told of classes without one, and which
owners it looked for. Beside that, its result depends on what a walk is given from the start: the findings about its object, the
collections about it, what differs of its namespace and of what is looked up. A later run takes over the walk where all of this is the
same, and walks the object where anything differs. INVARIANT: the result is that of the walk, to the byte; the log, the snapshot, the version
and the code are the same by the name of the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import merge
from operator import itemgetter
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from replay.admission.decision import Decision
from replay.admission.ordered.registry import looked_up_resources, mutating_criteria, units_of, unseen_criteria
from replay.admission.place import Place
from replay.admission.webhook.plugin import Backends
from replay.audit.place import BETWEEN, LogPosition, object_place
from replay.kube.attributes import Operation
from replay.kube.lister import Lister
from replay.matching.coarse import Classed, CoarseClass, may_select
from replay.matching.equivalence import EquivalentResourceMapper
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.reach import looked_up_kinds
from replay.reconstruct.request import ReplayRequest
from replay.world.judge import Judge
from replay.world.namespace import namespace_key
from replay.world.pod import RefusedPods
from replay.world.result import Consequence
from replay.world.timeline import OwnerChange
from replay.world.walk import WalkContext, Walked

MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of a log's walks. Others are walked anew."""
_LENGTH = 16
_UNKEEPABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""Errors of msgspec for text that is not UTF-8, for numbers above 64 bits, and for other values."""


_Columns = tuple[str, str, str, str]
_NOWHERE: frozenset[Place] = frozenset()


class Answer(NamedTuple):
    """What a walk learned about a class without a decision; `places` are those that it asked about."""

    question: str
    requests: CoarseClass
    places: frozenset[Place]
    answer: bool


class Trace(NamedTuple):
    """What a walk asked of both sets: classes with wanted decisions, and other answers."""

    decided: frozenset[CoarseClass] = frozenset()
    answers: frozenset[Answer] = frozenset()


class ObjectWalk(NamedTuple):
    """The walk of one object; `identity` is that of its key, `since` the number of its first request, `uids` the owners it looked for."""

    identity: int
    since: int
    walked: Walked
    trace: Trace = Trace()
    uids: tuple[str, ...] = ()


class TracedOwners(dict[str, Sequence[OwnerChange]]):
    """Differing owners. Lookups are recorded."""

    def __init__(self, owners: Mapping[str, Sequence[OwnerChange]]) -> None:
        """Nobody has looked for any."""
        super().__init__(owners)
        self.uids: dict[str, None] = {}

    def get(self, uid: str, default: object = None) -> Sequence[OwnerChange] | None:  # type: ignore[override]  # nobody gives a default
        """The changes of an owner, None where it does not differ."""
        del default
        self.uids[uid] = None
        return super().get(uid)


class Tracer:
    """Notes what walks ask of the sets, one object after the other."""

    def __init__(self, judge: Judge, owners: Mapping[str, Sequence[OwnerChange]]) -> None:
        """INVARIANT: every decision of `judge` comes by `decide`, or asks `backends` first."""
        self._judge = judge
        self._decided: set[_Columns] = set()
        self._answers: set[tuple[str, _Columns, frozenset[Place], bool]] = set()
        self._traces: dict[Hashable, Trace] = {}
        self.owners = TracedOwners(owners)
        self.judge = replace(
            judge,
            decide=self._decide,
            backends=self._backends,
            asks=self._asks,
            consults=self._consults,
            heeds=self._heeds,
        )

    def take(self) -> tuple[Trace, tuple[str, ...]]:
        """Return what was asked since the last call: of the sets, and about owners."""
        decided, answers, uids = frozenset(self._decided), frozenset(self._answers), tuple(self.owners.uids)
        self._decided.clear()
        self._answers.clear()
        self.owners.uids.clear()
        trace = self._traces.get((decided, answers))
        if trace is None:
            classes = frozenset(CoarseClass(*columns) for columns in decided)
            trace = Trace(classes, frozenset(Answer(each[0], CoarseClass(*each[1]), *each[2:]) for each in answers))
            self._traces[decided, answers] = trace
        return trace, uids

    def _decide(self, request: ReplayRequest, lister: Lister) -> Sequence[Decision]:
        self._decided.add(_columns(request.record))
        return self._judge.decide(request, lister)

    def _backends(self, request: ReplayRequest) -> Backends:
        self._decided.add(_columns(request.record))
        return self._judge.backends(request)

    def _asks(self, record: Classed) -> bool:
        answer = self._judge.asks(record)
        self._answers.add(("asks", _columns(record), _NOWHERE, answer))
        return answer

    def _consults(self, record: Classed) -> bool:
        answer = self._judge.consults(record)
        self._answers.add(("consults", _columns(record), _NOWHERE, answer))
        return answer

    def _heeds(self, record: Classed, places: frozenset[Place]) -> bool:
        answer = self._judge.heeds(record, places)
        self._answers.add(("heeds", _columns(record), places, answer))
        return answer


def _columns(record: Classed) -> _Columns:
    """A class of requests, as most of its questions are noted: a plain tuple is quickly made."""
    return record.verb, record.api_group, record.resource, record.subresource


def _answer(judge: Judge, question: str, requests: Classed, places: frozenset[Place]) -> bool:
    match question:
        case "asks":
            return judge.asks(requests)
        case "consults":
            return judge.consults(requests)
        case _:
            return judge.heeds(requests, places)


class _Entry(NamedTuple):
    """A stored walk: its input digest, trace number, owners, result."""

    context: bytes
    trace: int
    owners: dict[str, bytes]
    since: int
    result: bytes


class _Result(NamedTuple):
    """What became of an object. Changes of looked-up objects are not kept, because these are walked first."""

    consequences: list[tuple[LogPosition, Consequence]]
    owners: dict[str, list[OwnerChange]]
    refused: list[RefusedPods]


class _TraceAndActing(NamedTuple):
    """A trace, and the digest of what acts on its classes."""

    trace: Trace
    acting: str


class _File(NamedTuple):
    traces: list[_TraceAndActing]
    entries: list[_Entry]


_FILE = msgspec.msgpack.Decoder(_File)
_RESULT = msgspec.msgpack.Decoder(_Result)


class KeptWalks:
    """The walks that a store has kept, and those that this run keeps in their place."""

    def __init__(self, content: bytes | None, job: Callable[[], Job]) -> None:
        """`content` is the file's, None if absent. An invalid file is empty."""
        self._make = job
        try:
            self._file = _FILE.decode(content) if content is not None else _File([], [])
        except msgspec.MsgspecError:
            self._file = _File([], [])
        self._entries = {entry.context: entry for entry in self._file.entries}
        self._valid: dict[int, bool] = {}
        self._new: dict[bytes, _Entry] = {}
        self._traces: dict[Trace, int] = {}
        self._size = 0

    @property
    def content(self) -> bytes | None:
        """Return what to keep of this run, None without walks."""
        if not self._new:
            return None
        traces = [_TraceAndActing(trace, self._acting(trace)) for trace in self._traces]
        return msgspec.msgpack.encode(_File(traces, list(self._new.values())))

    @cached_property
    def _job(self) -> Job:
        return self._make()

    @cached_property
    def environment(self) -> bytes:
        """A digest of what every walk depends on beside the log, apart from what acts on single classes of requests."""
        job = self._job
        rebuilder = job.reconstructor
        return digest(
            sorted(job.elsewhere.unread),
            sorted(rebuilder.plugins),
            sorted(rebuilder.classes.undone),
            rebuilder.mutation is False,
            [repr(match) for match in mutating_criteria(job.distinct_sets)],
            [[repr(match) for match in unseen_criteria(job.distinct_sets[0], each)] for each in Operation],
            sorted(looked_up_kinds(job).items()),
            [repr(each) for each in looked_up_resources(job.distinct_sets, job.cluster.discovery)],
        )

    @cached_property
    def _units(self) -> list[list[tuple[str, Callable[[CoarseClass], bool]]]]:
        mapper = EquivalentResourceMapper(self._job.cluster.discovery)
        return [
            [(unit.digest, may_select(unit.match, mapper, self._job.versions.oldest)) for unit in units_of(manifests)]
            for manifests in self._job.distinct_sets
        ]

    def _acting(self, trace: Trace) -> str:
        """Return a digest of everything that may act on the classes with wanted decisions, in both sets."""
        acting = [
            (requests, [[unit for unit, selects in of_set if selects(requests)] for of_set in self._units])
            for requests in sorted(trace.decided)
        ]
        return digest(acting).hex()

    def _is_valid(self, number: int) -> bool:
        """Return whether the sets would give a trace the same answers."""
        if number not in self._valid:
            (_, answers), acting = self._file.traces[number]
            self._valid[number] = acting == self._acting(self._file.traces[number].trace) and all(
                each.answer == _answer(self._job.judge, each.question, each.requests, each.places) for each in answers
            )
        return self._valid[number]

    def walk(self, context: bytes, identity: int, owners: Callable[[str], bytes]) -> ObjectWalk | None:
        """The walk that was kept of an object, if it would come out as it did; `owners` are the digests of what differs of owners."""
        entry = self._entries.get(context)
        if entry is None or not 0 <= entry.trace < len(self._file.traces) or not self._is_valid(entry.trace):
            return None
        if any(owners(uid) != differing for uid, differing in entry.owners.items()):
            return None
        try:
            result = _RESULT.decode(entry.result)
        except msgspec.MsgspecError:
            return None
        self._put(entry._replace(trace=self._number(self._file.traces[entry.trace].trace)))
        walked = Walked(consequences=result.consequences, owners=result.owners, refused=result.refused)
        return ObjectWalk(identity, entry.since, walked)

    def keep(self, context: bytes, walk: ObjectWalk, owners: Callable[[str], bytes]) -> None:
        """Keep a walk, if there is room."""
        try:
            result = msgspec.msgpack.encode(_Result(walk.walked.consequences, walk.walked.owners, walk.walked.refused))
            differing = {uid: owners(uid) for uid in walk.uids}
        except _UNKEEPABLE:
            return
        self._put(_Entry(context, self._number(walk.trace), differing, walk.since, result))

    def _number(self, trace: Trace) -> int:
        return self._traces.setdefault(trace, len(self._traces))

    def _put(self, entry: _Entry) -> None:
        size = len(entry.result) + len(entry.context) + sum(map(len, entry.owners))
        if self._size + size <= MOST_BYTES:
            self._size += size
            self._new[entry.context] = entry


class WaveWalks:
    """Walks of one wave: kept ones, and places of the others."""

    def __init__(
        self,
        archive: KeptWalks,
        keys: Collection[str],
        around: WalkContext,
        begins: Divergence,
        parts: int,
    ) -> None:
        """`parts`: in how many the wave is walked."""
        self._archive = archive
        self._around = around
        self._begins = begins
        self._owners: dict[str, bytes] = {}
        self._places: dict[tuple[str, ...], bytes] = {}
        self._keys = {object_place(key.split(BETWEEN), 1).identity: key for key in keys}
        self._part = {identity: object_place(key.split(BETWEEN), parts).part for identity, key in self._keys.items()}
        around_all = digest(archive.environment, bool(around.owners), sorted(around.objects.changes.items()))
        self._contexts = {identity: self._context(key, around_all) for identity, key in self._keys.items()}
        walks = (archive.walk(context, identity, self._owner) for identity, context in self._contexts.items())
        self._walks = sorted((walk for walk in walks if walk is not None), key=self._place)

    @property
    def missing(self) -> frozenset[str]:
        """The keys of the objects that are to be walked."""
        return frozenset(self._keys.values()) - {self._keys[walk.identity] for walk in self._walks}

    def all(self, walks: Iterable[ObjectWalk], *, in_order: bool) -> Iterator[ObjectWalk]:
        """Yield all walks, kept and new, in order; `in_order` means by part, as stored."""
        walks = self._keeping(walks)
        yield from merge(self._walks, walks if in_order else sorted(walks, key=self._place), key=self._place)

    def _keeping(self, walks: Iterable[ObjectWalk]) -> Iterator[ObjectWalk]:
        left = {object_place(key.split(BETWEEN), 1).identity for key in self.missing}
        for walk in walks:
            left.discard(walk.identity)
            self._archive.keep(self._contexts[walk.identity], walk, self._owner)
            yield walk
        for identity in left:  # the log has no write to them
            self._archive.keep(self._contexts[identity], ObjectWalk(identity, 0, Walked()), self._owner)

    def _place(self, walk: ObjectWalk) -> tuple[int, int, int]:
        return self._part[walk.identity], walk.since, walk.identity

    def _owner(self, uid: str) -> bytes:
        """Return what differs about an owner."""
        if uid not in self._owners:
            self._owners[uid] = digest(self._around.owners.get(uid))
        return self._owners[uid]

    def _context(self, key: str, around_all: bytes) -> bytes:
        """Return a digest of a walk's inputs; findings about its requests are stored by key (`stored_key`)."""
        group, resource, namespace, _, *workspace = key.split(BETWEEN)
        place = (group, resource, namespace, *workspace)
        if place not in self._places:
            changes = self._around.namespaces.get(namespace_key(namespace, "".join(workspace)))
            self._places[place] = digest(around_all, changes, self._collections(group, resource, namespace, *workspace))
        findings = self._begins.alone(self._begins.objects.get(key, ()))
        return digest(key, self._places[place], sorted(findings.items(), key=itemgetter(0)))

    def _collections(self, group: str, resource: str, namespace: str, workspace: str = "") -> list[object]:
        by_place, stops = self._around.collections.by_place, self._around.stops
        about = [
            *by_place.get((group, resource, namespace, workspace), ()),
            *by_place.get((group, resource, "", workspace), ()),
        ]
        seqs = sorted({each.record.seq for each in about})
        return [seqs, [stops.get(seq) for seq in seqs], sorted(self._begins.alone(seqs).items(), key=itemgetter(0))]


def digest(*values: object) -> bytes:
    """A digest of values; of what msgspec cannot write one that is like no other."""
    try:
        content = msgspec.msgpack.encode(values)
    except _UNKEEPABLE:
        return os.urandom(_LENGTH)
    return hashlib.blake2b(content, digest_size=_LENGTH).digest()
