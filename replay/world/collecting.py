"""One object that a `deletecollection` finds: in the log, under the candidate, in both or in neither."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from replay.kube.attributes import Missing
from replay.kube.lister import Lister
from replay.reconstruct.reconstructor import RebuildStep, Reconstructor
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import GONE, Known, get
from replay.reconstruct.server.deletion import ended, left_by_deletion
from replay.world.collection import OBJECT_LABELS, Collection
from replay.world.controller import NAMESPACE_CONTROLLER
from replay.world.existence import Existence
from replay.world.judge import Judge
from replay.world.lookup import DifferingLookups, WorldLister
from replay.world.namespace import NamespaceAt
from replay.world.pod_validation import is_open
from replay.world.request_adapter import RequestAdapter
from replay.world.result import DELETED, NOT_SENT, UNKNOWN, CausingRequest, RequestEnd, answered, label
from replay.world.server.answer import ServerAnswer, denied, may_refuse
from replay.world.server.server import Server
from replay.world.state import LABELS, Branch, DeferredObject, State, content


class CollectionStep(NamedTuple):
    """A `deletecollection` and one object that it may delete.

    `number` is the position of the object among those that the log's request deleted, None if it did not delete it.
    `name` is the object's name. `is_stopped` says that the candidate refuses an object before it: the server stops at
    the first error.
    """

    collection: Collection
    exchange: Exchange
    number: int | None
    namespace: NamespaceAt
    name: str
    lookups: DifferingLookups
    is_stopped: bool = False
    is_held: bool = False
    """True if finalizers keep the object in the log: it remains after the request, marked as being deleted."""

    @property
    def logged(self) -> RequestEnd:
        """Return the log's answer."""
        return answered(self.collection.record)

    @property
    def causing_request(self) -> CausingRequest | None:
        """Return None. No caller needs the request that changed the looked-up objects."""
        return None

    @property
    def as_cause(self) -> CausingRequest:
        """The request, in the form in which consequences name their cause."""
        return CausingRequest(self.collection.record.audit_id, label(self.collection.record))

    @property
    def by_controller(self) -> bool:
        """Return whether the namespace controller sends the request, to empty a namespace."""
        return self.collection.record.user.username == NAMESPACE_CONTROLLER

    @property
    def admitted(self) -> RequestEnd:
        """Return the result of the request if nothing denies it."""
        return DELETED if self.collection.is_refused else self.logged


class CollectionPredictor(Struct, frozen=True):
    """Predicts what collection deletions do to one object. `steps` are all requests of that object."""

    server: Server
    judge: Judge
    request_adapter: RequestAdapter
    reconstructor: Reconstructor
    findings: Container[int]
    first_denials: Mapping[int, str]
    """The name of the first object whose deletion the candidate denies, by sequence number of the collection request.
    """
    steps: Sequence[RebuildStep]
    existence: Existence

    def collection_step(
        self, collection: Collection, uid: str, namespace: NamespaceAt, lookups: DifferingLookups
    ) -> CollectionStep:
        """Return the step for a collection request and the object that has `uid` in the log."""
        number = collection.items.get(uid)
        exchange = Exchange(collection.record, self.reconstructor.cluster.discovery)
        stop = self.first_denials.get(collection.record.seq)
        # A creation lacks the name if the server generated it.
        name = next((step.exchange.record.name for step in self.steps if step.exchange.record.name), "")
        # The server deletes the objects in the order of their names and stops at the first error.
        is_stopped = stop is not None and stop < name
        return CollectionStep(
            collection, exchange, number, namespace, name, lookups, is_stopped, uid in collection.held
        )

    def may_find(self, collection: Collection, uid: str, branches: Sequence[Branch]) -> bool:
        """Return whether the request may find the object, in the log or under the candidate."""
        if uid in collection.items or (collection.is_refused and self.existence.exists_now):
            return True
        return any(branch.state is not None and not branch.is_absent for branch in branches)

    def may_change(self, branches: Sequence[Branch]) -> bool:
        """Return whether any collection request may change the object.

        If not, only those matter that delete the object in the log, or that failed there. An object that exists in the
        log too, with the same labels, is not selected by any other request.
        """
        if all(branch.state is None or branch.is_absent for branch in branches):
            return False
        is_unselected = all(
            isinstance(state, DeferredObject) and causing_request is not None and not state.differs_at(LABELS)
            for state, causing_request in branches
        )
        return not (is_unselected and self.existence.exists_now)

    def answers(self, step: CollectionStep, branch: Branch) -> Iterator[ServerAnswer]:
        """Yield the answers that the server may give if the object is in this branch."""
        number, state = step.number, branch.state
        if state is None and number is None and not (step.collection.is_refused and self.existence.exists_now):
            yield ServerAnswer(step.admitted, None)
        elif branch.is_absent:
            is_unsent = step.by_controller
            is_gone = number is not None and not step.is_held
            yield ServerAnswer(NOT_SENT if is_unsent else step.admitted, None if is_gone else state)
        elif step.is_stopped:
            yield ServerAnswer(step.logged, state if state is not None else self.last_logged_object())
        elif self._is_alike(step, state):
            yield ServerAnswer(step.logged, _after_deletion(step, state) if step.is_held else None)
        elif number is None and isinstance(state, DeferredObject) and self._is_not_selected(step, state):
            yield ServerAnswer(step.logged, state)
        elif step.by_controller and self._keeps_namespace(step.namespace):
            yield ServerAnswer(NOT_SENT, state if state is not None else self.last_logged_object())
        else:
            yield from self._answers_for_content(step, branch)

    def _is_alike(self, step: CollectionStep, state: State) -> bool:
        """Return whether the candidate decides about the object as it was in the log."""
        is_found = step.collection.record.seq in self.findings
        is_same = step.number is not None and not (step.namespace.differs or step.lookups.states or is_found)
        return is_same and self.server.decides_alike(step.collection.record, state)

    def _is_not_selected(self, step: CollectionStep, state: DeferredObject) -> bool:
        """Return whether the object existed in the log with the same labels and was not selected."""
        return not step.collection.is_refused and not state.differs_at(LABELS) and self.existence.exists_now

    @staticmethod
    def _keeps_namespace(namespace: NamespaceAt) -> bool:
        """Return whether the candidate keeps the namespace, so that no controller empties it."""
        return namespace.differs and not namespace.is_terminating and not namespace.is_absent

    def _answers_for_content(self, step: CollectionStep, branch: Branch) -> Iterator[ServerAnswer]:
        state = branch.state
        here = content(state) if state is not None else self._log_state(self.existence.passed)
        is_listed = state is None and not step.collection.is_refused
        if isinstance(here, Missing) and step.collection.is_refused:
            is_asked = self.judge.may_match(step.collection.record)
            # The selectors cannot be evaluated without content: the request deletes the object or leaves it.
            yield ServerAnswer(UNKNOWN if is_asked else step.admitted, state)
            if not is_asked and not step.exchange.dry_run:
                yield ServerAnswer(step.admitted, GONE)
        elif isinstance(here, Missing):
            yield ServerAnswer(step.logged, here)
        elif is_listed or (is_selected := self._is_selected(step, here)):
            yield from self._decided(step, branch, here)
        else:
            yield ServerAnswer(step.admitted, state)
            if is_selected is None:
                yield from self._decided(step, branch, here)

    def _is_selected(self, step: CollectionStep, here: Known) -> bool | None:
        """Return whether the request selects the object, None if that is unknown.

        Labels and fields that are unknown here are taken from the log's object.
        """
        if self.existence.exists_now and is_open(OBJECT_LABELS, here):
            logged = self._log_state(self.existence.passed)
            if isinstance(logged, Known):
                here = here.with_value(OBJECT_LABELS, get(logged.value, OBJECT_LABELS) or {})
        is_selected = step.collection.selects(step.exchange, here)
        return True if is_selected is None and step.number is not None else is_selected

    def _decided(self, step: CollectionStep, branch: Branch, here: Known) -> Iterator[ServerAnswer]:
        """Yield the answers that the candidate's verdict about the object gives."""
        lister: Lister = self.reconstructor.cluster.at(step.collection.record)
        if step.lookups.states:
            lister = WorldLister(lister, step.lookups.states)
        is_met = step.number is not None
        gone = self._after(step, branch, here)
        state: State = here if is_met or branch.state is not None else None
        if step.exchange.dry_run:
            # A dry run leaves the object as it was.
            gone, state = [branch.state], branch.state
        decision = self.judge.decide_adapted(self.request_adapter.deletion(step.exchange, here), lister)
        if decision.denials:
            yield ServerAnswer(denied(decision), state, decision)
        elif may_refuse(decision):
            yield ServerAnswer(UNKNOWN, here if is_met else state)
            yield from (ServerAnswer(UNKNOWN, left) for left in gone)
        else:
            yield from (ServerAnswer(step.admitted, left) for left in gone)

    @staticmethod
    def _after(step: CollectionStep, branch: Branch, here: Known) -> list[State]:
        """Return the states that the deletion may leave.

        None (as in the log) if it deletes the same object as in the log, or if nothing remains in either.
        """
        if step.number is not None and branch.state is None:
            return [None]
        left = left_by_deletion(here, step.exchange)
        is_gone_in_log = step.number is not None and not step.is_held
        return [None if is_gone_in_log and each == GONE else each for each in left]

    def last_logged_object(self) -> DeferredObject:
        """Return the object after the log's last write, computed on demand."""
        return DeferredObject(partial(self._log_state, self.existence.passed))

    def _log_state(self, passed: int) -> Known | Missing:
        """Return the object after the last write among the first `passed` requests of the log."""
        history = self.steps[0].old_objects.history
        for step in reversed(self.steps[:passed]):
            place = history.index_of(step.exchange)
            if place is not None:
                return history.after(place)
        return Missing("", "the log has no write to the object")


def _after_deletion(step: CollectionStep, state: State) -> State:
    """Return the state of an object after a request to delete it.

    Finalizers keep it both in the log and under the candidate.
    """
    if not isinstance(state, DeferredObject):
        return state
    return DeferredObject(lambda: ended(state.content, step.exchange), state.touched)
