"""The walk of an object, with all questions that it asked about the sets and other walks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.inputs import Place
from replay.admission.webhook.plugin import Backends
from replay.kube.lister import Lister
from replay.matching.coarse import Classed, CoarseClass
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.kept_input import UNKEEPABLE, KeptRequest, kept_row
from replay.reconstruct.request import ReplayRequest
from replay.world.decide import decide_again, decide_and_keep
from replay.world.judge import Judge
from replay.world.timeline import OwnerChange
from replay.world.walk import WalkResult

_LENGTH = 16
_Columns = tuple[str, str, str, str]
_NOWHERE: frozenset[Place] = frozenset()


class Answer(NamedTuple):
    """An answer about a class without a decision. `places` are the paths in question."""

    question: str
    requests: CoarseClass
    places: frozenset[Place]
    answer: bool


class Trace(NamedTuple):
    """The questions of a walk to both sets: classes that it had decided, and other answers."""

    decided: frozenset[CoarseClass] = frozenset()
    answers: frozenset[Answer] = frozenset()


class Note(NamedTuple):
    """A request that a walk had decided, as a row of `kept_input`, with a digest of the decisions.

    `is_candidate_only` marks an evaluation of the candidate's policies alone.
    """

    is_candidate_only: bool
    row: bytes
    digest: bytes


class ObjectWalk(NamedTuple):
    """The walk of one object.

    `identity` is the hash of its key, `since` the number of its first request, and `uids` the owners it looked up.
    `notes` are the requests it had decided, or None if one of them cannot be decided again.
    """

    identity: int
    since: int
    walked: WalkResult
    trace: Trace = Trace()
    uids: tuple[str, ...] = ()
    notes: tuple[Note, ...] | None = ()


class TracedOwners(dict[str, Sequence[OwnerChange]]):
    """The owners that differ, with a record of each lookup."""

    def __init__(self, owners: Mapping[str, Sequence[OwnerChange]]) -> None:
        """Start without lookups."""
        super().__init__(owners)
        self.uids: dict[str, None] = {}

    def get(self, uid: str, default: object = None) -> Sequence[OwnerChange] | None:  # type: ignore[override]  # nobody gives a default
        """Return the changes of an owner, or None if it does not differ."""
        del default
        self.uids[uid] = None
        return super().get(uid)


class Tracer:
    """A recorder of the questions that walks ask of the sets, one object after the other."""

    def __init__(self, job: Job, owners: Mapping[str, Sequence[OwnerChange]]) -> None:
        """Wrap the judge of a job.

        INVARIANT: every decision of a judge comes by `decide` or `decide_candidate`, and every mutated object by
        `backends`.
        """
        self._job = job
        self._judge = judge = job.judging(self._decide, self._decide_candidate)
        self._notes: list[Note] | None = []
        self._decided: set[_Columns] = set()
        self._answers: set[tuple[str, _Columns, frozenset[Place], bool]] = set()
        self._traces: dict[Hashable, Trace] = {}
        self.owners = TracedOwners(owners)
        self.judge = replace(
            judge,
            backends=self._backends,
            may_match=self._may_match,
            consults=self._consults,
            reads_places=self._reads_places,
        )

    def take(self) -> tuple[Trace, tuple[str, ...], tuple[Note, ...] | None]:
        """Return the questions since the last call: about the sets, about owners, and about requests."""
        decided, answers, uids = frozenset(self._decided), frozenset(self._answers), tuple(self.owners.uids)
        notes = tuple(self._notes) if self._notes is not None else None
        self._notes = []
        self._decided.clear()
        self._answers.clear()
        self.owners.uids.clear()
        # Most walks ask the same questions, so equal traces share one object.
        trace = self._traces.get((decided, answers))
        if trace is None:
            classes = frozenset(CoarseClass(*columns) for columns in decided)
            trace = Trace(classes, frozenset(Answer(each[0], CoarseClass(*each[1]), *each[2:]) for each in answers))
            self._traces[decided, answers] = trace
        return trace, uids, notes

    def _decide(self, request: ReplayRequest, lister: Lister) -> Sequence[Decision]:
        return self._noted(request, lister, is_candidate_only=False)

    def _decide_candidate(self, request: ReplayRequest, lister: Lister) -> Sequence[Decision]:
        return self._noted(replace(request, alternative=None), lister, is_candidate_only=True)

    def _noted(self, request: ReplayRequest, lister: Lister, *, is_candidate_only: bool) -> Sequence[Decision]:
        self._decided.add(_columns(request.record))
        job = self._job
        chain = job.server.candidate_chain if is_candidate_only else job.server.chain
        if not job.keeps_requests or not isinstance(chain, Chain):
            self._notes = None
            return (
                job.judge.decide_candidate(request, lister)
                if is_candidate_only
                else job.replayer.decide(request, lister)
            )
        decisions, mutated = decide_and_keep(chain, request, lister)
        # Only lookups in the log can be repeated later, not those among objects of this candidate.
        is_of_log = lister == job.cluster.at(request.record)
        try:
            if self._notes is not None and mutated is not None and is_of_log:
                self._notes.append(Note(is_candidate_only, kept_row(mutated), _digest_of(decisions)))
                return decisions
        except UNKEEPABLE:
            pass
        self._notes = None
        return decisions

    def _backends(self, request: ReplayRequest) -> Backends:
        self._decided.add(_columns(request.record))
        return self._judge.backends(request)

    def _may_match(self, record: Classed) -> bool:
        answer = self._judge.may_match(record)
        self._answers.add(("asks", _columns(record), _NOWHERE, answer))
        return answer

    def _consults(self, record: Classed) -> bool:
        answer = self._judge.consults(record)
        self._answers.add(("consults", _columns(record), _NOWHERE, answer))
        return answer

    def _reads_places(self, record: Classed, places: frozenset[Place]) -> bool:
        answer = self._judge.reads_places(record, places)
        self._answers.add(("reads_places", _columns(record), places, answer))
        return answer


def _columns(record: Classed) -> _Columns:
    """Return a record's class as a plain tuple, because most questions need one and tuples are cheap."""
    return record.verb, record.api_group, record.resource, record.subresource


def is_decided_alike(job: Job, note: Note) -> bool:
    """Return whether the sets of a job decide about a request as those of the note did."""
    chain = job.server.candidate_chain if note.is_candidate_only else job.server.chain
    if not job.keeps_requests or not isinstance(chain, Chain):
        return False
    try:
        mutated = KeptRequest(note.row).mutated
    except msgspec.MsgspecError:
        return False
    return _digest_of(decide_again(chain, mutated, job.cluster.at(mutated.request.record))) == note.digest


def _digest_of(decisions: Sequence[Decision]) -> bytes:
    """Return a digest of the decisions of both sets.

    One object for both sets gives another digest than two equal objects.
    """
    return digest(decisions, decisions[0] is decisions[1])


def answer_of(judge: Judge, question: str, requests: Classed, places: frozenset[Place]) -> bool:
    """Return a judge's answer to a question about a class without a decision."""
    match question:
        case "asks":
            return judge.may_match(requests)
        case "consults":
            return judge.consults(requests)
        case _:
            return judge.reads_places(requests, places)


def digest(*values: object) -> bytes:
    """Return a digest of values. Values that msgspec cannot write get a random one, which equals no other."""
    try:
        content = msgspec.msgpack.encode(values)
    except UNKEEPABLE:
        return os.urandom(_LENGTH)
    return hashlib.blake2b(content, digest_size=_LENGTH).digest()
