"""The API server's answer to a request whose object differs from the log, and the object afterwards.

The order is that of `registry/generic/registry/store.go` and `endpoints/handlers`. The object of an update, patch or
deletion is looked up before admission. The mutating phase, API validation, the validating phase and the storage follow.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.admission.inputs import Place
from replay.audit.event import CREATED, RequestRecord
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupResource
from replay.kube.merge.field_manager import ApplyConflictError
from replay.reconstruct.operation import creates
from replay.reconstruct.patch.apply import are_managers_known
from replay.reconstruct.patch.body import UnfittingPatchError
from replay.reconstruct.record.known import GONE, Known
from replay.reconstruct.request import ReplayRequest
from replay.reconstruct.server.deletion import ended, is_being_deleted, left_by_deletion, left_by_write
from replay.world.creation import is_apply, may_apply, may_be_apply
from replay.world.judge import ADMITTED, Judge
from replay.world.request_adapter import RequestAdapter, after_write
from replay.world.result import ABSENT, CONFLICT, DELETED, EXISTS, INVALID, UNKNOWN, VERSION_NAMED, Cause
from replay.world.server.answer import (
    ServerAnswer,
    connected,
    denied,
    is_absent,
    left_by_unseen_write,
    may_refuse,
    mutated_later,
    mutated_places,
    object_in,
    subresource_done,
    succeeds,
)
from replay.world.server.invalidity import is_refused
from replay.world.server.same_world import SameWorld
from replay.world.state import DeferredObject, State, known_or_missing
from replay.world.step import WorldStep
from replay.world.validation import has_immutable, touches_immutable
from replay.world.version import named_uid

_ASKS_FIRST = frozenset({"eviction", "binding"})
"""Subresources whose storage runs the validating phase before it looks up the pod.

Source: `EvictionREST.Create`, `BindingREST.Create`.
"""


class Server:
    """The API server under the candidate, for one object."""

    def __init__(self, judge: Judge, request_adapter: RequestAdapter) -> None:
        """Keep the inputs. `judge` decides requests. `request_adapter` builds requests on other objects."""
        self._judge = judge
        self._adapter = request_adapter
        self.same_world = SameWorld(request_adapter)

    def answers(self, step: WorldStep, state: State) -> Iterator[ServerAnswer]:
        """Yield every possible answer for a state of the object; several if a verdict is undetermined."""
        # `_is_alike` and `_is_unasked` come first, because all other checks need the content, which is slow to compute.
        if step.fails_anyway or (state is None and step.is_absent_in_both):
            yield ServerAnswer(step.logged, state)
        elif _conflicts(step, state):
            yield ServerAnswer(CONFLICT, state)
        elif isinstance(state, DeferredObject) and self._is_alike(step, state):
            yield self._alike(step, state)
        elif self._is_unasked(step, state):
            yield ServerAnswer(step.logged, state if step.is_dry else self._after_later(step, state))
        elif state is None and step.is_decided_as_looked_up_in_log:
            yield from self.same_world.answers(step)
        elif step.exchange.is_connect:
            yield self._connect(step, state)
        elif step.record.verb == "create":
            yield from self._create(step, state) if not step.record.subresource else self._subresource(step, state)
        elif step.record.verb == "delete":
            yield from self._delete(step, object_in(step, state))
        else:
            yield from self._update(step, object_in(step, state))

    def decides_alike(self, record: RequestRecord, state: State) -> bool:
        """Return whether no candidate policy and no API rule reads a place where the object differs from the log."""
        if not isinstance(state, DeferredObject) or state.touched is None:
            return False
        resource = GroupResource(record.api_group, record.resource)
        if record.verb != "delete" and touches_immutable(resource, record.verb, record.subresource, state.touched):
            return False
        return not self._judge.may_match(record) or not self._judge.reads_places(record, state.touched)

    def _is_alike(self, step: WorldStep, state: State) -> bool:
        """Return whether a write that succeeded gets the same decision as on the log's object."""
        is_known = step.isolated_end is not None or not step.is_finding
        is_write = step.record.verb in ("update", "patch", "delete") and step.logged.cause == Cause.SUCCEEDS
        if step.precedes_apply or may_apply(step.record):  # field owners may differ although the content is the same
            return False
        return is_known and is_write and not step.lookups_differ and self.decides_alike(step.record, state)

    def _alike(self, step: WorldStep, state: DeferredObject) -> ServerAnswer:
        isolated_end, record = step.isolated_end, step.record
        # The verdict on the log's object holds here too, because it reads nothing that differs.
        if isolated_end is not None and isolated_end.result.cause != Cause.SUCCEEDS:
            return ServerAnswer(isolated_end.result, state)
        # Finalizers are as in the log, so a deletion that left the object there leaves it here too.
        if step.is_dry or (record.verb == "delete" and not step.is_removed):
            return ServerAnswer(
                step.logged,
                state if step.is_dry else DeferredObject(lambda: ended(state.content, step.exchange), state.touched),
            )
        if record.verb == "delete" or step.is_removed:  # a write may remove the last finalizer
            return ServerAnswer(step.logged, None)
        if record.verb == "update" and not record.subresource:  # an update replaces the whole object
            return ServerAnswer(step.logged, None if isolated_end is None else mutated_later(step))
        assert state.touched is not None
        return ServerAnswer(step.logged, self._after_later(step, state, state.touched | mutated_places(isolated_end)))

    def _is_unasked(self, step: WorldStep, state: State) -> bool:
        """Return whether neither a candidate policy nor an immutability rule reads the object of a successful write."""
        record = step.record
        if (
            state is None
            or is_absent(state)
            or step.logged.cause != Cause.SUCCEEDS
            or record.verb not in ("update", "patch")
            or may_apply(record)
        ):
            return False
        # A write to an object that is being deleted may remove the last finalizer, and so the object.
        if isinstance(state, Known) and is_being_deleted(state):
            return False
        is_compared = has_immutable(step.exchange.resource.group_resource, record.verb, record.subresource)
        return not is_compared and not self._judge.may_match(record)

    def _after_later(self, step: WorldStep, state: State, touched: frozenset[Place] | None = None) -> DeferredObject:
        """Return the object after an admitted write, computed on demand."""
        return DeferredObject(
            lambda: self._after(step, state), touched, state if step.record.subresource == "status" else None
        )

    def _after(self, step: WorldStep, state: State) -> Known | Missing:
        """Return the result of an admitted write to another object."""
        here = object_in(step, state)
        request = step.in_namespace(self._adapter.update(step, here))
        return after_write(
            here, step.exchange, known_or_missing(self._judge.judge_adapted(request, step.lister).object)
        )

    def newly_allowed(  # noqa: C901, PLR0912 - the order of the server, one answer for each step
        self, step: WorldStep, state: State, *, is_open: bool
    ) -> Iterator[ServerAnswer]:
        """Yield the answers to a request that only the candidate's authorizers allow. The log lacks its body.

        `is_open` says that the object may exist although it does not exist in the log.
        """
        record, decision = step.record, step.candidate
        exists = step.existed_before if state is None else not is_absent(state)
        is_creation = record.verb == "create" and not record.subresource
        if not exists and (creates(step.exchange) or may_be_apply(step.exchange)):
            yield from _created_unseen(step, state, is_open=is_open)
        # Updates, patches and deletions look up the object before admission; creations, connections and `_ASKS_FIRST`
        # after it.
        elif not (exists or is_creation or record.subresource in _ASKS_FIRST or step.exchange.is_connect):
            yield ServerAnswer(UNKNOWN if is_open else ABSENT, state)
        elif decision.denials:
            yield ServerAnswer(denied(decision), state, decision)
        elif not exists and not is_creation:
            yield ServerAnswer(UNKNOWN if is_open or may_refuse(decision) else ABSENT, state)
        elif may_refuse(decision):
            yield ServerAnswer(UNKNOWN, state, decision)
            if step.is_dry:
                return
            if record.verb == "delete":
                yield from (
                    ServerAnswer(UNKNOWN, left, decision)
                    for left in left_by_deletion(object_in(step, state), step.exchange)
                )
            elif exists and not is_creation:
                yield ServerAnswer(UNKNOWN, left_by_unseen_write(step, state), decision)
        elif step.is_dry and not step.exchange.is_connect:
            yield ServerAnswer(succeeds(_code(record))._replace(certain=False), state, decision)
        elif is_creation:
            yield ServerAnswer(succeeds(201)._replace(certain=False), state, decision)
        elif record.verb == "delete":
            for left in left_by_deletion(object_in(step, state), step.exchange):
                yield ServerAnswer(succeeds(200)._replace(certain=False), left, decision)
        elif step.exchange.is_connect:
            yield ServerAnswer(connected(object_in(step, state)), state)
        elif record.verb == "create":
            yield subresource_done(step, state)
        else:
            yield ServerAnswer(succeeds(200)._replace(certain=False), left_by_unseen_write(step, state), decision)

    def _connect(self, step: WorldStep, state: State) -> ServerAnswer:
        """Return the answer to a connection.

        Admission precedes the lookup of the pod (`handlers.ConnectResource`), which needs a node.
        """
        decision = step.candidate
        if decision.denials:
            return ServerAnswer(denied(decision), state)
        if may_refuse(decision):
            return ServerAnswer(UNKNOWN, state)
        if is_absent(state) or (state is None and not step.existed_before):
            return ServerAnswer(ABSENT, state)
        return ServerAnswer(step.logged if step.is_connected else connected(object_in(step, state)), state)

    def _create(self, step: WorldStep, state: State) -> Iterator[ServerAnswer]:
        """Yield the answers to a creation. The storage checks last whether the object exists."""
        prior = step.state_after_refusal if state is None else state
        exists = step.existed_before if state is None else not is_absent(state)
        if (answer := self._created_as_found(step, prior, exists=exists)) is not None:
            yield answer
            return
        decision, new = step.decided()
        if step.is_made_invalid:
            yield ServerAnswer(INVALID, prior, decision)
            return
        if decision.denials:
            yield ServerAnswer(denied(decision), prior, decision)
            return
        # An undetermined verdict has two ends: refused (nothing stored), and what would follow if admitted.
        opens = may_refuse(decision)
        if opens:
            yield ServerAnswer(UNKNOWN, prior, decision)
        # The storage refuses a named version before it looks whether the object exists (`etcd3.store.Create`).
        if step.is_of_new_version:
            yield ServerAnswer(UNKNOWN if opens else VERSION_NAMED, prior, decision)
        elif exists:
            yield ServerAnswer(UNKNOWN if opens else EXISTS, prior, decision)
        else:
            stored = (
                prior
                if step.is_dry
                else step.state_after_write(self._adapter.stored_after_failure(step, GONE, known_or_missing(new)))
            )
            yield ServerAnswer(UNKNOWN if opens else succeeds(201), stored, decision)

    @staticmethod
    def _created_as_found(step: WorldStep, prior: State, *, exists: bool) -> ServerAnswer | None:
        """Return the answer to a creation whose decision is known, None if it must be evaluated.

        The object of a creation comes from its body, so that it is the same as in the log.
        """
        isolated_end = step.isolated_end
        is_admitted_by_both = not step.is_finding and step.logged.cause == Cause.SUCCEEDS
        if step.lookups_differ or (isolated_end is None and not is_admitted_by_both):
            return None
        if isolated_end is not None and isolated_end.result.cause != Cause.SUCCEEDS:
            return ServerAnswer(isolated_end.result, prior)
        if exists:
            return ServerAnswer(EXISTS, prior)
        if isolated_end is None:
            return ServerAnswer(step.logged, prior if step.is_dry else None)
        return ServerAnswer(step.logged, prior if step.is_dry else mutated_later(step))

    def _subresource(self, step: WorldStep, state: State) -> Iterator[ServerAnswer]:
        """Yield the answers to an eviction, binding or token request.

        The first two run the validating phase before the pod lookup.
        """
        if step.record.subresource not in _ASKS_FIRST and is_absent(state):
            yield ServerAnswer(ABSENT, state)
            return
        decision = step.candidate
        prior = step.state_after_refusal if state is None else state
        if decision.denials:
            yield ServerAnswer(denied(decision), prior, decision)
        elif is_absent(state) or (state is None and not step.existed_before):
            yield ServerAnswer(UNKNOWN if may_refuse(decision) else ABSENT, state)
        elif state is not None and step.conflicts:
            yield ServerAnswer(UNKNOWN if may_refuse(decision) else CONFLICT, state)
        elif may_refuse(decision):
            yield ServerAnswer(UNKNOWN, prior)
            yield subresource_done(step, state)._replace(result=UNKNOWN)
        else:
            yield subresource_done(step, state)

    def _delete(self, step: WorldStep, here: Known | Missing) -> Iterator[ServerAnswer]:
        if isinstance(here, Known) and here.value is None:
            yield ServerAnswer(ABSENT, here)
            return
        # If no policy or webhook may match, the deletion is admitted, and its request need not be rebuilt.
        decision = ADMITTED
        if self._judge.may_match(step.record):
            request = self._adapter.deletion(step.exchange, here)
            decision = self._judge.decide_adapted(step.in_namespace(request), step.lister)
        prior = here
        after = (
            [prior] if step.is_dry else [step.state_after_write(left) for left in left_by_deletion(here, step.exchange)]
        )
        if decision.denials:
            yield ServerAnswer(denied(decision), prior, decision)
        elif may_refuse(decision):
            yield ServerAnswer(UNKNOWN, prior, decision)
            yield from (ServerAnswer(UNKNOWN, state, decision) for state in after)
        else:
            # If the named version is outdated here, the client would probably have read and named a newer one.
            result = succeeds(200)._replace(certain=not step.may_conflict)
            yield from (ServerAnswer(result, state, decision) for state in after)

    def _update(self, step: WorldStep, here: Known | Missing) -> Iterator[ServerAnswer]:
        """Yield the answers to an update, patch or apply of an existing object. Some create a missing one."""
        if isinstance(here, Known) and here.value is None:
            if not creates(step.exchange):
                yield from _unlike_apply(step, here)
                return
            if named_uid(step.exchange):  # a missing object cannot have the UID (`storage.Preconditions.Check`)
                yield ServerAnswer(CONFLICT, here)
                return
            request = step.in_namespace(self._adapter.creation(step.exchange, step.lister))
        elif _may_conflict_again(step, here):
            yield ServerAnswer(UNKNOWN, here)
            return
        else:
            try:
                request = step.in_namespace(self._adapter.update(step, here))
            except ApplyConflictError:
                yield ServerAnswer(CONFLICT, here)
                return
            except UnfittingPatchError:
                yield ServerAnswer(INVALID, here)
                return
        yield from self._written(step, here, request)

    def _written(self, step: WorldStep, here: Known | Missing, request: ReplayRequest) -> Iterator[ServerAnswer]:
        judged = self._judge.judge_adapted(request, step.lister)
        decision, written = judged.decision, known_or_missing(judged.object)
        creates = isinstance(here, Known) and here.value is None
        is_made_invalid = self._judge.leaves_invalid(request, decision.patch, lambda: written)
        # A mutating policy that denies ends the request before API validation; a validating denial comes after it.
        is_over = bool(decision.denials) and decision.denials[0].is_of_mutation
        is_invalid = not is_over and (is_made_invalid or is_refused(step, self._judge, here, written))
        if is_invalid:
            yield ServerAnswer(INVALID, here, decision)
            return
        if decision.denials:
            yield ServerAnswer(denied(decision), here, decision)
            return
        stored = (
            here
            if step.is_dry
            else step.state_after_write(left_by_write(here, after_write(here, step.exchange, written)))
        )
        opens = is_invalid is None or may_refuse(decision)
        if opens:
            yield ServerAnswer(UNKNOWN, here, decision)
        result = succeeds(201 if creates else 200)._replace(certain=creates or not step.may_conflict)
        yield ServerAnswer(UNKNOWN if opens else result, stored, decision)


def _code(record: RequestRecord) -> int:
    """Return the status of a success."""
    return CREATED if record.verb == "create" else DELETED.code


def _conflicts(step: WorldStep, state: State) -> bool:
    """Return whether a request names another version of an existing object.

    Evictions run admission before that check.
    """
    if is_absent(state) or step.record.subresource in _ASKS_FIRST:
        return False
    is_met = state is not None or (step.lookups_differ and step.logged.cause == Cause.CONFLICT)
    return is_met and step.conflicts


def _created_unseen(step: WorldStep, state: State, *, is_open: bool) -> Iterator[ServerAnswer]:
    """Yield the answers to a newly allowed write that may create its object: the log lacks its body."""
    decision, created = step.candidate, Missing("", "the log has no body for the write that creates the object")
    is_sure = creates(step.exchange) and not is_open
    if decision.denials and is_sure:
        yield ServerAnswer(denied(decision), state, decision)
    elif is_sure and not may_refuse(decision):
        yield ServerAnswer(succeeds(201)._replace(certain=False), created, decision)
    else:
        yield ServerAnswer(UNKNOWN, state, decision)
        yield ServerAnswer(UNKNOWN, created, decision)


def _unlike_apply(step: WorldStep, here: Known) -> Iterator[ServerAnswer]:
    """Yield the answers to a write to a missing object.

    An apply would create it. The log may not tell whether it is one.
    """
    if may_be_apply(step.exchange):
        yield ServerAnswer(UNKNOWN, here)
        yield ServerAnswer(UNKNOWN, Missing("", "an apply may have created the object"))
    else:
        yield ServerAnswer(ABSENT, here)


def _may_conflict_again(step: WorldStep, here: Known | Missing) -> bool:
    """Return whether an apply conflicted in the log and the managers of this object are unknown."""
    if step.logged.cause != Cause.CONFLICT or not is_apply(step.exchange):
        return False
    return isinstance(here, Missing) or not are_managers_known(here)
