"""Walks kept beside a store: the result of one object's walk, and everything that it depends on.

A walk records what it reads (`traced_walk`). That is: the classes for which it needed decisions, the decided requests,
the answers about other classes, and the owners that it looked up. If only validating policies of these classes changed,
the requests are decided again.

The result also depends on the walk's inputs: findings and collections of the object, and the differences of its
namespace and of looked-up objects. A later run reuses the walk if all of this is equal, and walks the object otherwise.
INVARIANT: the result equals that of the walk, to the byte. Log, snapshot, version and code are equal, because the
file's name contains their digest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum, auto
from functools import cached_property
from heapq import merge
from operator import itemgetter
from typing import NamedTuple

import msgspec

from replay.admission.ordered.plugin import AdmissionPlugin
from replay.admission.ordered.registry import (
    ALL_ORDERED_PLUGINS,
    POLICY_PLUGINS,
    looked_up_resources,
    mutating_criteria,
    unseen_criteria,
)
from replay.audit.place import BETWEEN, LogPosition, object_place
from replay.kube.attributes import Operation
from replay.matching.coarse import CoarseClass, may_select
from replay.matching.rules import EquivalentResourceMapper
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.kept_input import ROWS, UNKEEPABLE, KeptRequest, block_of, rows_of
from replay.pipeline.replay.traced_walk import Note, ObjectWalk, Trace, answer_of, digest, is_decided_alike
from replay.world.namespace import namespace_key
from replay.world.pod import RefusedPods
from replay.world.reach import looked_up_kinds
from replay.world.result import Consequence, numbered
from replay.world.timeline import OwnerChange
from replay.world.walk import WalkContext, WalkResult

MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of a log's walks. Others are walked again."""
_RATIO = 10
"""Least compression ratio of a request in a block."""


class _NotePlace(NamedTuple):
    """A `Note` whose row is at a position in a block."""

    is_candidate_only: bool
    block: int
    number: int
    digest: bytes


class _Entry(NamedTuple):
    """A stored walk: its input digest, trace number, looked-up owners, result, notes, and the bytes of its result.

    `ends` has the numbers of consequences in the file. Changes of looked-up objects are not saved, because these
    objects are walked first.
    """

    context: bytes
    trace: int
    uids: dict[str, bytes]
    since: int
    ends: list[tuple[LogPosition, int]]
    owners: dict[str, list[OwnerChange]]
    refused: list[RefusedPods]
    notes: tuple[_NotePlace, ...] | None
    size: int


class _TraceAndActing(NamedTuple):
    """A trace, with digests of everything that acts on its classes, and of what acts before the validating phase."""

    trace: Trace
    acting: str
    mutating: str


class _File(NamedTuple):
    """All kept walks. `consequences` has equal ones once, because most requests of a log end like others."""

    traces: list[_TraceAndActing]
    consequences: list[Consequence]
    entries: list[_Entry]
    blocks: list[bytes]


_FILE = msgspec.msgpack.Decoder(_File)
_NO_CHANGES = digest(None)


class _ActingUnit(NamedTuple):
    """An object that acts on some classes of requests."""

    digest: str
    selects: Callable[[CoarseClass], bool]
    plugin: AdmissionPlugin


class _Validity(Enum):
    """Which walks with a trace are still valid: all, those whose requests get the same decisions, or none.

    `BY_DIFFERENCE`: the walks are of an earlier candidate, and only policies decide their requests.
    """

    ALL = auto()
    BY_DIFFERENCE = auto()
    BY_DECISIONS = auto()
    NONE = auto()


class KeptWalks:
    """The walks that a store has saved, and those that this run saves in their place."""

    def __init__(self, content: bytes | None, job: Callable[[], Job]) -> None:
        """`content` is the file's, None if absent. An invalid file is empty."""
        self._make = job
        try:
            self._file = _FILE.decode(content) if content is not None else _File([], [], [], [])
        except msgspec.MsgspecError:
            self._file = _File([], [], [], [])
        self._entries = {entry.context: entry for entry in self._file.entries}
        self._validity: dict[int, _Validity] = {}
        self._acting_units: dict[CoarseClass, list[list[_ActingUnit]]] = {}
        self._new: dict[bytes, tuple[_Entry, int, list[tuple[LogPosition, Consequence]]]] = {}
        """The walks to save: each with the numbers of the old file, the number of its trace, and its consequences."""
        self._traces: dict[Trace, int] = {}
        self._size = 0
        self._blocks = list(self._file.blocks)
        self._rows: list[bytes] = []
        """Rows of the block that is being filled."""
        self._read: tuple[int, Sequence[bytes]] = (-1, ())
        """Number and rows of the last block that was read."""

    @property
    def content(self) -> bytes | None:
        """Return the walks to keep of this run, None without walks."""
        if not self._new:
            return None
        if self._rows:
            self._close_block()
        traces = [_TraceAndActing(trace, *self._acting(trace)) for trace in self._traces]
        # Blocks without a remaining walk are dropped, and the others get new numbers.
        used = sorted({note.block for entry, *_ in self._new.values() for note in entry.notes or ()})
        numbers = {block: number for number, block in enumerate(used)}
        distinct, number_of = numbered(end for *_, consequences in self._new.values() for _, end in consequences)
        entries = [
            _Entry(
                entry.context,
                trace,
                entry.uids,
                entry.since,
                [(place, number_of[id(end)]) for place, end in consequences],
                entry.owners,
                entry.refused,
                entry.notes and tuple([each._replace(block=numbers[each.block]) for each in entry.notes]),
                entry.size,
            )
            for entry, trace, consequences in self._new.values()
        ]
        return msgspec.msgpack.encode(_File(traces, distinct, entries, [self._blocks[block] for block in used]))

    @cached_property
    def _job(self) -> Job:
        return self._make()

    @cached_property
    def environment(self) -> bytes:
        """The digest of all inputs of walks besides the log, except those that act on single classes of requests."""
        job = self._job
        rebuilder = job.reconstructor
        return digest(
            sorted(job.request_adapter.unread),
            sorted(rebuilder.plugins),
            sorted(rebuilder.classes.undone),
            rebuilder.mutation is False,
            [repr(match) for match in mutating_criteria(job.distinct_sets)],
            [[repr(match) for match in unseen_criteria(job.distinct_sets[0], each)] for each in Operation],
            sorted(looked_up_kinds(job).items()),
            [repr(each) for each in looked_up_resources(job.distinct_sets, job.cluster.discovery)],
        )

    @cached_property
    def _units(self) -> tuple[list[_ActingUnit], ...]:
        """The units of each set, and those of the earlier candidate, if there is one."""
        job = self._job
        mapper = EquivalentResourceMapper(job.cluster.discovery)
        sets = job.distinct_sets if job.earlier is None else (*job.distinct_sets, job.earlier)
        return tuple(
            [
                _ActingUnit(unit.digest, may_select(unit.match, mapper, job.excluded), plugin)
                for plugin in ALL_ORDERED_PLUGINS
                for unit in plugin.units(manifests)
            ]
            for manifests in sets
        )

    def _acting(self, trace: Trace, *, is_earlier: bool = False) -> tuple[str, str]:
        """Return digests of the units that may act on the wanted classes, and of mutating units, in both sets.

        `is_earlier` takes the earlier candidate instead of this run's.
        """
        all_acting, mutating = [], []
        # The digest must not depend on the order of a set.
        for requests in sorted(trace.decided):
            current, candidate, *earlier = self._acting_on(requests)
            acting = (current, *earlier) if is_earlier else (current, candidate)
            all_acting.append((requests, [[unit.digest for unit in of_set] for of_set in acting]))
            mutating.append((requests, [[unit.digest for unit in of_set if unit.plugin.mutates] for of_set in acting]))
        return digest(all_acting).hex(), digest(mutating).hex()

    def _acting_on(self, requests: CoarseClass) -> list[list[_ActingUnit]]:
        """Return the units of each of `_units` that may act on a class. Most traces have the same few classes."""
        if requests not in self._acting_units:
            self._acting_units[requests] = [
                [each for each in of_set if each.selects(requests)] for of_set in self._units
            ]
        return self._acting_units[requests]

    def _is_by_policies(self, trace: Trace) -> bool:
        """Return whether nothing but policies may act on the classes with wanted decisions."""
        acting = (unit for requests in trace.decided for of_set in self._acting_on(requests) for unit in of_set)
        return all(unit.plugin in POLICY_PLUGINS for unit in acting)

    def check(self) -> None:
        """Find now which walks are still valid, for a process that would only wait."""
        _ = self._valid

    @cached_property
    def _valid(self) -> frozenset[bytes]:
        """The walks to which the sets would give the same answers and decisions, by the digests of their inputs."""
        # In this order each block of kept requests is read once.
        ordered = sorted(self._file.entries, key=lambda entry: entry.notes[0][1:3] if entry.notes else ())
        return frozenset(entry.context for entry in ordered if self._is_valid(entry))

    def _is_valid(self, entry: _Entry) -> bool:
        if not 0 <= entry.trace < len(self._file.traces):
            return False
        if entry.trace not in self._validity:
            self._validity[entry.trace] = self._validity_of(*self._file.traces[entry.trace])
        validity = self._validity[entry.trace]
        if validity in (_Validity.ALL, _Validity.NONE):
            return validity is _Validity.ALL
        is_alike = self._differs_in_nothing if validity is _Validity.BY_DIFFERENCE else self._is_decided_alike
        return entry.notes is not None and all(map(is_alike, entry.notes))

    def _validity_of(self, trace: Trace, acting: str, mutating: str) -> _Validity:
        # The kept requests have passed the mutating phase, so they are of no use after a change before its end.
        now, mutating_now = self._acting(trace)
        if mutating != mutating_now or any(
            each.answer != answer_of(self._job.judge, each.question, each.requests, each.places)
            for each in trace.answers
        ):
            return _Validity.NONE
        if acting == now:
            return _Validity.ALL
        is_earlier = self._job.earlier is not None and acting == self._acting(trace, is_earlier=True)[0]
        return _Validity.BY_DIFFERENCE if is_earlier and self._is_by_policies(trace) else _Validity.BY_DECISIONS

    def _row(self, note: _NotePlace) -> bytes | None:
        """Return the request of a note, or None if the file has none."""
        if not 0 <= note.block < len(self._file.blocks):
            return None
        # One block is decoded at a time.
        if self._read[0] != note.block:
            self._read = note.block, rows_of(self._file.blocks[note.block])
        rows = self._read[1]
        return rows[note.number] if 0 <= note.number < len(rows) else None

    def _is_decided_alike(self, note: _NotePlace) -> bool:
        row = self._row(note)
        return row is not None and is_decided_alike(self._job, Note(note.is_candidate_only, row, note.digest))

    def _differs_in_nothing(self, note: _NotePlace) -> bool:
        """Return whether the differing policies decide alike or, if they do not, whether all policies together do."""
        row, difference = self._row(note), self._job.difference
        if row is None or difference is None:
            return False
        try:
            is_alike = difference.is_alike(KeptRequest(row), self._job.cluster)
        except msgspec.MsgspecError:
            return False
        return is_alike or self._is_decided_alike(note)

    def walk(self, context: bytes, identity: int, owners: Callable[[str], bytes]) -> ObjectWalk | None:
        """Return the saved walk of an object if it is still valid, None otherwise.

        `owners` returns the digest of an owner's differences.
        """
        entry = self._entries.get(context)
        if entry is None or context not in self._valid:
            return None
        for uid, differing in entry.uids.items():
            if owners(uid) != differing:
                return None
        table = self._file.consequences
        try:
            consequences = [(place, table[number]) for place, number in entry.ends]
        except IndexError:
            return None
        # The walk is saved again, because the file of this run replaces the old one.
        self._put(entry, self._number(self._file.traces[entry.trace].trace), consequences)
        walked = WalkResult(consequences=consequences, owners=entry.owners, refused=entry.refused)
        return ObjectWalk(identity, entry.since, walked)

    def keep(self, context: bytes, walk: ObjectWalk, owners: Callable[[str], bytes]) -> None:
        """Save a walk, if there is room."""
        if self._size >= MOST_BYTES:
            return
        walked = walk.walked
        try:
            size = len(msgspec.msgpack.encode((walked.consequences, walked.owners, walked.refused)))
            differing = {uid: owners(uid) for uid in walk.uids}
        except UNKEEPABLE:
            return
        notes = None if walk.notes is None else tuple(map(self._keep_note, walk.notes))
        entry = _Entry(context, -1, differing, walk.since, [], walked.owners, walked.refused, notes, size)
        self._put(entry, self._number(walk.trace), walked.consequences)

    def _keep_note(self, note: Note) -> _NotePlace:
        if len(self._rows) == ROWS:
            self._close_block()
        self._rows.append(note.row)
        # The compressed size is known only when the block is full.
        self._size += len(note.row) // _RATIO
        return _NotePlace(note.is_candidate_only, len(self._blocks), len(self._rows) - 1, note.digest)

    def _close_block(self) -> None:
        self._blocks.append(block_of(self._rows))
        self._rows = []

    def _number(self, trace: Trace) -> int:
        return self._traces.setdefault(trace, len(self._traces))

    def _put(self, entry: _Entry, trace: int, consequences: list[tuple[LogPosition, Consequence]]) -> None:
        size = self._size + entry.size + len(entry.context) + sum(map(len, entry.uids))
        if size <= MOST_BYTES:
            self._size = size
            self._new[entry.context] = entry, trace, consequences


class WaveWalks:
    """The walks of one wave: saved ones, and the objects that must be walked."""

    def __init__(
        self,
        archive: KeptWalks,
        keys: Collection[str],
        context: WalkContext,
        divergence: Divergence,
        parts: int,
    ) -> None:
        """`parts` is the number of parts in which the wave is walked."""
        self._archive = archive
        self._walk_context = context
        self._divergence = divergence
        self._owners: dict[str, bytes] = {}
        self._places: dict[tuple[str, ...], bytes] = {}
        self._keys: dict[int, str] = {}
        self._part: dict[int, int] = {}
        self._contexts: dict[int, bytes] = {}
        objects = context.objects
        looked_up = sorted(objects.changes.items()), objects.namespaces and sorted(objects.namespaces)
        shared_context = digest(archive.environment, bool(context.owners), looked_up)
        for key in keys:
            columns = key.split(BETWEEN)
            part, identity = object_place(columns, parts)
            self._keys[identity], self._part[identity] = key, part
            self._contexts[identity] = self._context(key, columns, shared_context)
        walks = (archive.walk(context, identity, self._owner) for identity, context in self._contexts.items())
        self._walks = sorted((walk for walk in walks if walk is not None), key=self._place)

    @cached_property
    def missing(self) -> frozenset[str]:
        """The keys of the objects that must be walked."""
        return frozenset(self._keys.values()) - {self._keys[walk.identity] for walk in self._walks}

    def all(self, walks: Iterable[ObjectWalk], *, in_order: bool) -> Iterator[ObjectWalk]:
        """Yield all walks, kept and new, in order. `in_order` means by part, as stored."""
        walks = self._keeping(walks)
        yield from merge(self._walks, walks if in_order else sorted(walks, key=self._place), key=self._place)

    def _keeping(self, walks: Iterable[ObjectWalk]) -> Iterator[ObjectWalk]:
        left = {object_place(key.split(BETWEEN), 1).identity for key in self.missing}
        for walk in walks:
            left.discard(walk.identity)
            self._archive.keep(self._contexts[walk.identity], walk, self._owner)
            yield walk
        for identity in left:  # the log has no write to them
            self._archive.keep(self._contexts[identity], ObjectWalk(identity, 0, WalkResult()), self._owner)

    def _place(self, walk: ObjectWalk) -> tuple[int, int, int]:
        return self._part[walk.identity], walk.since, walk.identity

    def _owner(self, uid: str) -> bytes:
        """Return the differences of an owner."""
        differing = self._owners.get(uid)
        if differing is None:
            changes = self._walk_context.owners.get(uid)
            differing = self._owners[uid] = _NO_CHANGES if changes is None else digest(changes)
        return differing

    def _context(self, key: str, columns: Sequence[str], shared_context: bytes) -> bytes:
        """Return a digest of a walk's inputs; findings about its requests are stored by key (`stored_key`)."""
        group, resource, namespace, _, *workspace = columns
        place = (group, resource, namespace, *workspace)
        if place not in self._places:
            changes = self._walk_context.namespaces.get(namespace_key(namespace, "".join(workspace)))
            self._places[place] = digest(
                shared_context, changes, self._collections(group, resource, namespace, *workspace)
            )
        findings = self._divergence.isolated_ends(self._divergence.objects.get(key, ()))
        return digest(key, self._places[place], sorted(findings.items(), key=itemgetter(0)))

    def _collections(self, group: str, resource: str, namespace: str, workspace: str = "") -> list[object]:
        by_place, stops = self._walk_context.collections.by_place, self._walk_context.first_denials
        about = [
            *by_place.get((group, resource, namespace, workspace), ()),
            *by_place.get((group, resource, "", workspace), ()),
        ]
        seqs = sorted({each.record.seq for each in about})
        return [
            seqs,
            [stops.get(seq) for seq in seqs],
            sorted(self._divergence.isolated_ends(seqs).items(), key=itemgetter(0)),
        ]
