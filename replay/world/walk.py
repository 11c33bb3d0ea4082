"""One object through the candidate's world, request by request."""

from __future__ import annotations

from collections.abc import Collection as Sized
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from replay.admission.decision import Verdict
from replay.audit.event import RequestRecord
from replay.audit.place import Place
from replay.errors import UNFORESEEN
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.reconstruct import reconstructor
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.record.body import UnusableBodyError
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get
from replay.world.collection import Collection, Collections
from replay.world.controller import GARBAGE_COLLECTOR, NAMESPACE_CONTROLLER, is_controller
from replay.world.elsewhere import Elsewhere
from replay.world.existence import Existence
from replay.world.judge import Judge
from replay.world.made import Made, Refused
from replay.world.namespace import NamespaceAt, Namespaces, namespaces_at
from replay.world.owner import TEMPLATE, TEMPLATES_OF, is_missing, retry
from replay.world.result import (
    ABSENT,
    FORBIDDEN,
    NOT_SENT,
    UNKNOWN,
    Alone,
    Blame,
    Cause,
    Consequence,
    Result,
    answered,
    label,
)
from replay.world.server import Answer, Server, denied
from replay.world.state import GONE, LABELS, SAME, Branch, Later, content, merged_branches
from replay.world.step import Step
from replay.world.timeline import Change, OwnerChange, Owners, Presence, presence_at


@dataclass(frozen=True)
class Surroundings:
    """What an object meets: the collections of the log, namespaces and owners of the other world.

    `findings` are the numbers of the requests that the sets decide otherwise, with how each ends taken alone; None where that
    is to be worked out.
    """

    collections: Collections
    findings: Mapping[int, Alone | None] = field(default_factory=dict)
    namespaces: Namespaces = field(default_factory=dict)
    owners: Owners = field(default_factory=dict)
    owned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By uid of an object the uids of its owners."""
    owning: Sized[str] = ()
    """The uids of what owns something."""
    barred: frozenset[int] = frozenset()
    """The numbers of the writes that the candidate's authorizers refuse."""


@dataclass
class Walked:
    """What becomes of one object: its requests, itself, and its being there for what it owns."""

    consequences: list[Consequence] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    namespaces: dict[str, list[Change]] = field(default_factory=dict)
    owners: dict[str, list[OwnerChange]] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    """The ReplicaSets of this world alone whose pods are refused."""


@dataclass(frozen=True)
class Walker:
    """Walks objects with all their records."""

    reconstructor: Reconstructor
    judge: Judge
    elsewhere: Elsewhere
    around: Surroundings

    def walk(self, records: Sequence[RequestRecord]) -> Walked:
        """One object, from all of its records in order; nothing is said of one whose bodies cannot be used."""
        for checked in (False, True):
            with suppress(UnusableBodyError, *UNFORESEEN):
                return _ObjectWalk(self, list(self.reconstructor.steps(records, checked=checked))).run()
        return Walked()


class _ObjectWalk:
    """The walk of one object."""

    def __init__(self, walker: Walker, told: list[reconstructor.Step]) -> None:
        self._walker = walker
        self._around = walker.around
        self._server = Server(walker.judge, walker.elsewhere)
        self._told = told
        self._found = Walked()
        self._branches: tuple[Branch, ...] = SAME
        self._existence = Existence(told)
        self._uid = ""
        record = told[0].exchange.record
        has_templates = record.resource in TEMPLATES_OF and record.api_group == "apps"
        self._made = Made(told, walker.judge, walker.elsewhere) if has_templates else None

    def run(self) -> Walked:
        collections = self._around.collections.about(self._told[0].exchange.record)
        if not collections:
            for step in self._told:
                self._take(step)
            return self._found
        events: list[reconstructor.Step | Collection] = [*collections, *self._told]
        for event in sorted(events, key=_seq):
            if isinstance(event, Collection):
                self._collect(event)
            else:
                self._take(event)
        return self._found

    def _take(self, told: reconstructor.Step) -> None:
        """One request."""
        before, record = self._branches, told.exchange.record
        step: Step | None = None
        place = Place(record.seq, 0)
        answers: list[tuple[Answer, Branch]] = []
        namespace = record.namespace if record.resource != "namespaces" else ""
        for at in namespaces_at(self._around.namespaces, namespace, place):
            step = Step(told, self._walker.reconstructor, self._walker.judge, at, self._existence)
            step.is_last = told is self._told[-1]
            step.is_finding, step.alone = record.seq in self._around.findings, self._around.findings.get(record.seq)
            step.owners = self._around.owned.get(record.response_uid)
            for branch in before:
                answers += [(answer, _branch(branch, answer, at, step.own)) for answer in self._answers(step, branch)]
        assert step is not None
        self._consider(step, [answer for answer, _ in answers])
        self._branches = merged_branches([branch for _, branch in answers])
        self._existence.follow()
        if step.exchange.succeeded and record.verb != "delete" and step.exchange.concerns_parent and not step.is_dry:
            self._uid = record.response_uid or record.object_uid or self._uid
        self._note(place, before)
        if self._made is not None and not self._branches == SAME == before:
            self._made.follow(step, self._branches)
            self._found.refused = self._made.refused

    def _answers(self, step: Step, branch: Branch) -> Iterator[Answer]:
        """What may be answered in one branch: first by what is around the object, then by the server."""
        controls = is_controller(step.record.user.username)
        is_creation = step.record.verb == "create" and not step.record.subresource
        if step.record.seq in self._around.barred:
            yield Answer(FORBIDDEN, step.unless_written if branch.state is None else branch.state)
        elif (owner := self._owner_of(step, is_creation=is_creation)) is not None:
            stays = owner.presence is Presence.LEFT
            yield Answer(NOT_SENT, step.before if stays else GONE, blame=owner.blame)
        elif step.namespace.is_absent:
            yield self._without_namespace(step, controls=controls)
        elif step.namespace.is_terminating and is_creation:
            yield Answer(NOT_SENT if controls else FORBIDDEN, branch.state)
        elif branch.state is None and not step.namespace_differs:
            yield from self._server.as_decided(step) if step.is_finding else [Answer(step.logged, None)]
        elif (controls and branch.is_absent and not is_creation) or self._is_finalized(step, branch):
            yield Answer(NOT_SENT, branch.state)
        else:
            for answer in self._server.answers(step, branch.state):
                # A controller that sees the object does not make it.
                is_seen = controls and answer.result.cause == Cause.EXISTS != step.logged.cause
                yield answer._replace(result=NOT_SENT) if is_seen else answer

    def _owner_of(self, step: Step, *, is_creation: bool) -> OwnerChange | None:
        """An owner that makes a request one that is not sent: absent for a creation, still there for the collector."""
        if not self._around.owners:
            return None
        if not is_creation and step.record.user.username != GARBAGE_COLLECTOR:
            return None
        uids = step.uids_of_owners if is_creation else self._owners_of(step)
        found = (presence_at(self._around.owners, uid, step.place) for uid in uids)
        return next((each for each in found if each is not None and is_missing(each, step, is_creation)), None)

    def _owners_of(self, step: Step) -> Sequence[str]:
        """The uids of the owners of the object that is there."""
        known = self._around.owned.get(self._uid)
        return known if known is not None else _owners(step.before)

    @staticmethod
    def _is_finalized(step: Step, branch: Branch) -> bool:
        """Whether a controller ends a namespace that nobody deleted in this world."""
        if step.record.user.username != NAMESPACE_CONTROLLER or step.record.subresource != "finalize":
            return False
        here = content(branch.state) if branch.state is not None else None
        return isinstance(here, Known) and not get(here.value, ("metadata", "deletionTimestamp"))

    def _without_namespace(self, step: Step, *, controls: bool) -> Answer:
        if controls:
            return Answer(NOT_SENT, GONE)
        if step.fails_anyway:
            return Answer(step.logged, GONE)
        if step.exchange.is_connect and step.decisions[1].denials:
            return Answer(denied(step.decisions[1]), GONE)
        return Answer(ABSENT, GONE)

    def _consider(self, step: Step, answers: list[Answer]) -> None:
        """Note how a request ends, if anything about it is not as in the log."""
        result = _merged([answer.result for answer in answers])
        if result == step.logged and not step.is_finding:
            return
        was_same = self._branches == SAME and not step.namespace_differs
        if was_same and result == step.logged and all(answer.state is None for answer in answers):
            return
        differs = result.cause != step.logged.cause
        blame = self._blame(step)
        is_root = (was_same and blame is None) or (result.cause == Cause.DENIED and step.is_newly_denied)
        denials = next((a.decision.denials for a in answers if a.decision is not None and a.decision.denials), None)
        self._found.consequences.append(
            Consequence(
                step.place,
                step.own,
                result,
                None if is_root or not differs else blame,
                is_root and differs,
                differs,
                denials if result.cause == Cause.DENIED else None,
                retry=retry(step, result),
            )
        )

    def _blame(self, step: Step) -> Blame | None:
        """Who is to blame for a difference, None if nobody is before the request itself."""
        is_creation = step.record.verb == "create" and not step.record.subresource
        owner = self._owner_of(step, is_creation=is_creation)
        if owner is not None:
            return owner.blame
        found = [branch.blame for branch in self._branches if branch.blame is not None]
        return found[0] if found else step.namespace.blame

    def _collect(self, collection: Collection) -> None:
        """A `deletecollection`, which deletes the object in the log, in this world, in both or in neither."""
        number = collection.items.get(self._uid) if self._uid else None
        if number is None and all(branch.state is None or branch.is_absent for branch in self._branches):
            return
        before, place = self._branches, Place(collection.record.seq, number or 0)
        exchange = Exchange(collection.record, self._walker.reconstructor.cluster.discovery)
        at = namespaces_at(self._around.namespaces, collection.record.namespace, place)[0]
        own = Blame(collection.record.audit_id, label(collection.record))
        branches: list[Branch] = []
        results: list[Result] = []
        for branch in before:
            for answer in self._collected(branch, collection, exchange, number, at):
                results.append(answer.result)
                branches.append(_branch(branch, answer, at, own))
        logged, result = answered(collection.record), _merged(results)
        differs = result.cause != logged.cause
        blame = (before[0].blame or at.blame) if differs else None
        self._branches = merged_branches(branches)
        if differs or number is not None:
            self._found.consequences.append(
                Consequence(place, own, result, blame, differs and blame is None, differs, of_collection=True)
            )
        if number is not None:
            self._existence.end()
        self._note(place, before)

    def _log_state(self, passed: int) -> Known | Missing:
        """The object as the last write of the log left it, of as many requests."""
        history = self._told[0].olds.history
        for told in reversed(self._told[:passed]):
            place = history.index_of(told.exchange)
            if place is not None:
                return history.after(place)
        return Missing("", "no write to it is logged")

    def _collected(
        self, branch: Branch, collection: Collection, exchange: Exchange, number: int | None, at: NamespaceAt
    ) -> Iterator[Answer]:
        logged = answered(collection.record)
        controls = collection.record.user.username == NAMESPACE_CONTROLLER
        if branch.state is None and number is None:
            yield Answer(logged, None)
            return
        if branch.is_absent:
            yield Answer(NOT_SENT if controls else logged, None if number is not None else branch.state)
            return
        state = branch.state
        is_found = collection.record.seq in self._around.findings
        if (
            number is not None
            and not at.differs
            and not is_found
            and self._server.meets_alike(collection.record, state)
        ):
            yield Answer(logged, None)
            return
        if number is None and isinstance(state, Later) and not state.differs_at(LABELS) and self._existence.now:
            yield Answer(logged, state)  # it was there, and was not selected
            return
        if controls and at.differs and not at.is_terminating and not at.is_absent:
            yield Answer(
                NOT_SENT, state if state is not None else Later(partial(self._log_state, self._existence.passed))
            )
            return
        here = content(state) if state is not None else self._log_state(self._existence.passed)
        if isinstance(here, Missing) or (state is not None and not collection.selects(exchange, here.value)):
            yield Answer(logged, here)
        else:
            yield from self._decided(branch, collection, exchange, number, here)

    def _decided(
        self, branch: Branch, collection: Collection, exchange: Exchange, number: int | None, here: Known
    ) -> Iterator[Answer]:
        """The verdict about one object of a collection."""
        judge = self._walker.judge
        lister = self._walker.reconstructor.cluster.at(collection.record)
        logged = answered(collection.record)
        gone = None if number is not None else GONE
        request = self._walker.elsewhere.deleted(exchange, here)
        decision = judge.elsewhere(request, lister).decision
        if decision.denials:
            yield Answer(denied(decision), here if number is not None or branch.state is not None else None)
        elif decision.verdict is Verdict.UNDETERMINED:
            yield Answer(UNKNOWN, here)
            yield Answer(UNKNOWN, gone)
        else:
            yield Answer(logged, gone)

    def _note(self, place: Place, before: tuple[Branch, ...]) -> None:
        """Keep when the object changes in the other world, and whether it is there for what it owns."""
        record = self._told[0].exchange.record
        if self._branches == SAME == before:
            return
        if record.resource == "namespaces" and not record.api_group and self._branches != before:
            self._found.changes.append(Change(place, tuple(map(_settled, self._branches))))
        if self._uid not in self._around.owning:
            return
        known = self._found.owners.setdefault(self._uid, [])
        presence = self._presence()
        state = self._branches[0].state
        is_alike = isinstance(state, Later) and not state.differs_at(TEMPLATE)
        has_template = presence is Presence.OTHER and record.resource in TEMPLATES_OF and not is_alike
        template = self._template() if has_template else None
        last = (known[-1].presence, known[-1].template) if known else (Presence.SAME, None)
        if (presence, template) != last:
            blame = next((branch.blame for branch in self._branches if branch.blame), None)
            known.append(OwnerChange(place, presence, blame, template))

    def _template(self) -> JSON:
        """The pod template of an object that is there, where it is certain."""
        if len(self._branches) > 1 or self._branches[0].state is None:
            return None
        here = content(self._branches[0].state)
        return get(here.value, ("spec", "template")) if isinstance(here, Known) else None

    def _presence(self) -> Presence:
        is_gone = all(branch.is_absent for branch in self._branches)
        if not is_gone and any(branch.state is None or branch.is_absent for branch in self._branches):
            return Presence.SAME
        if is_gone:
            return Presence.ABSENT if self._existence.now else Presence.SAME
        return Presence.OTHER if self._existence.now else Presence.LEFT


def _branch(before: Branch, answer: Answer, at: NamespaceAt, own: Blame) -> Branch:
    """What an answer makes of a branch."""
    return SAME[0] if answer.state is None else Branch(answer.state, before.blame or answer.blame or at.blame or own)


def _settled(branch: Branch) -> Branch:
    return branch if branch.state is None else Branch(content(branch.state), branch.blame)


def _seq(event: reconstructor.Step | Collection) -> int:
    return event.record.seq if isinstance(event, Collection) else event.exchange.record.seq


def _merged(results: Iterable[Result]) -> Result:
    """What several possible answers have in common."""
    found = list(dict.fromkeys(results))
    if len({result.cause for result in found}) > 1:
        return UNKNOWN
    return found[0]._replace(certain=all(result.certain for result in found))


def _owners(known: Known | Missing) -> list[str]:
    references = get(known.value, ("metadata", "ownerReferences")) if isinstance(known, Known) else None
    return [str(each["uid"]) for each in references or () if isinstance(each, dict) and each.get("uid")]
