"""What the API server answers to a request where the object is another one than in the log, and what it then holds.

The order is that of `registry/generic/registry/store.go` and `endpoints/handlers`: the object of an update, patch or deletion is
looked up before admission; the mutating phase, the validation of the API, the validating phase and the storage follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from replay.admission.decision import Decision, Verdict
from replay.admission.place import Place, changed_places
from replay.audit.event import RequestRecord
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupResource
from replay.kube.merge.field_manager import ApplyConflictError
from replay.reconstruct.history.derived import after_binding
from replay.reconstruct.record.known import Known, get
from replay.reconstruct.request import ReplayRequest
from replay.reconstruct.server.deletion import ended, is_being_deleted, left_by_deletion, left_by_write
from replay.world.creation import creates, may_apply
from replay.world.elsewhere import Elsewhere, after_write
from replay.world.judge import ADMITTED, Judge
from replay.world.result import ABSENT, CONFLICT, EXISTS, INVALID, UNKNOWN, Alone, Blame, Cause, RequestEnd
from replay.world.state import GONE, Later, State, content, known_of
from replay.world.step import WorldStep
from replay.world.validation import has_immutable, may_break, touches_immutable

_ASKS_FIRST = frozenset({"eviction", "binding"})
"""Subresources whose storage asks the validating phase before it looks up the pod (`EvictionREST.Create`, `BindingREST.Create`)."""
_NO_STORE = frozenset({"token", "log"})


class ServerAnswer(NamedTuple):
    """A result, and what the object then is.

    `decision` is the one that was made on another object, if any was; `blame` who is to blame where it is not the object.
    """

    result: RequestEnd
    state: State
    decision: Decision | None = None
    blame: Blame | None = None


def denied(decision: Decision) -> RequestEnd:
    """The answer of a denial: that of the first one."""
    return RequestEnd(Cause.DENIED, decision.denials[0].code)


class Server:
    """The API server of the candidate's world, for one object."""

    def __init__(self, judge: Judge, elsewhere: Elsewhere) -> None:
        """`judge` decides, `elsewhere` makes the requests that it decides."""
        self._judge = judge
        self._elsewhere = elsewhere

    def answers(self, step: WorldStep, state: State) -> Iterator[ServerAnswer]:
        """All that may be answered where the object is in a state; more than one where a verdict is open."""
        if step.fails_anyway or (state is None and step.is_absent_in_both):
            yield ServerAnswer(step.logged, state)
        elif state is not None and not _is_absent(state) and step.conflicts:
            yield ServerAnswer(CONFLICT, state)
        elif isinstance(state, Later) and self._is_alike(step, state):
            yield self._alike(step, state)
        elif self._is_unasked(step, state):
            yield ServerAnswer(step.logged, state if step.is_dry else self._after_later(step, state))
        elif state is None and not step.around_differs:
            yield from self.as_decided(step)
        elif step.exchange.is_connect:
            yield self._connect(step, state)
        elif step.record.verb == "create":
            yield from self._create(step, state) if not step.record.subresource else self._subresource(step, state)
        elif step.record.verb == "delete":
            yield from self._delete(step, _here(step, state))
        else:
            yield from self._update(step, _here(step, state))

    def as_decided(self, step: WorldStep) -> Iterator[ServerAnswer]:
        """Where both worlds are the same, only the verdicts of the two sets tell them apart."""
        log = step.logged
        if step.alone is not None or step.is_undetermined:
            yield from self._as_found(step)
            return
        if not (step.is_reached or step.is_invalid_by_current):
            yield ServerAnswer(log, None)
            return
        current, candidate = step.decisions
        if current is candidate or candidate.verdict is Verdict.NOT_REACHED:
            yield ServerAnswer(log, None)
        elif candidate.denials and step.is_made_invalid:
            yield ServerAnswer(INVALID._replace(certain=False), step.unless_written)
        elif candidate.denials:
            # The line of a request that was invalid in the log does not have them.
            decision = candidate if step.is_invalid_by_current else None
            yield ServerAnswer(denied(candidate), step.unless_written, decision)
        elif candidate.verdict is Verdict.UNDETERMINED:
            yield from self._undetermined(step)
        elif step.is_refused_by_current:
            yield from self._newly_admitted(step)
        elif log.cause == Cause.SUCCEEDS and candidate.patch != current.patch:
            yield self._mutated(step)
        elif log.cause == Cause.EXISTS and candidate.patch != current.patch and step.is_made_invalid:
            yield ServerAnswer(INVALID, None)  # the storage finds last that the object exists
        else:
            yield ServerAnswer(log, None)

    def _as_found(self, step: WorldStep) -> Iterator[ServerAnswer]:
        """What the first pass has found out: a refusal, an object that is mutated otherwise, and is valid, or neither."""
        if step.alone is None:
            yield from self._undetermined(step)
        elif step.alone.result.cause != Cause.SUCCEEDS:
            yield ServerAnswer(step.alone.result, step.unless_written)
        else:
            yield ServerAnswer(step.logged, None if step.is_last or step.is_dry else _mutated_later(step))

    def meets_alike(self, record: RequestRecord, state: State) -> bool:
        """Whether an object is that of the log for all who look at a request: the candidate's policies and the API."""
        if not isinstance(state, Later) or state.touched is None:
            return False
        if record.verb != "delete" and touches_immutable(
            GroupResource(record.api_group, record.resource), state.touched
        ):
            return False
        return not self._judge.asks(record) or not self._judge.heeds(record, state.touched)

    def _is_alike(self, step: WorldStep, state: State) -> bool:
        """Whether a write that succeeded is decided as it would be taken alone."""
        is_known = step.alone is not None or not step.is_finding
        is_write = step.record.verb in ("update", "patch", "delete") and step.logged.cause == Cause.SUCCEEDS
        if step.precedes_apply or may_apply(step.record):  # who owns which field may differ where no content does
            return False
        return is_known and is_write and not step.around_differs and self.meets_alike(step.record, state)

    def _alike(self, step: WorldStep, state: Later) -> ServerAnswer:
        alone, record = step.alone, step.record
        if alone is not None and alone.result.cause != Cause.SUCCEEDS:
            return ServerAnswer(alone.result, state)
        if step.is_dry or (record.verb == "delete" and not step.is_removed):
            return ServerAnswer(
                step.logged, state if step.is_dry else Later(lambda: ended(state.content, step.exchange), state.touched)
            )
        if record.verb == "delete" or step.is_removed:  # a write may take the last finalizer away
            return ServerAnswer(step.logged, None)
        if record.verb == "update" and not record.subresource:  # what it found is replaced as a whole
            return ServerAnswer(step.logged, None if alone is None else _mutated_later(step))
        assert state.touched is not None
        return ServerAnswer(step.logged, self._after_later(step, state, state.touched | _places(alone)))

    def _is_unasked(self, step: WorldStep, state: State) -> bool:
        """Whether no policy of the candidate can match a write to an object that is there, and no other rule compares contents."""
        record = step.record
        if (
            state is None
            or _is_absent(state)
            or step.logged.cause != Cause.SUCCEEDS
            or record.verb not in ("update", "patch")
            or may_apply(record)
        ):
            return False
        if isinstance(state, Known) and is_being_deleted(state):
            return False
        is_compared = not record.subresource and has_immutable(step.exchange.resource.group_resource)
        return not is_compared and not self._judge.asks(record)

    def _after_later(self, step: WorldStep, state: State, touched: frozenset[Place] | None = None) -> Later:
        """The same, worked out when somebody asks."""
        return Later(lambda: self._after(step, state), touched, state if step.record.subresource == "status" else None)

    def _after(self, step: WorldStep, state: State) -> Known | Missing:
        """What a write that is admitted makes of another object."""
        here = _here(step, state)
        request = step.in_namespace(self._elsewhere.updated(step, here))
        return after_write(here, step.exchange, known_of(self._judge.elsewhere(request, step.lister).object))

    def _undetermined(self, step: WorldStep) -> Iterator[ServerAnswer]:
        """Either as in the log, or the other way round."""
        if step.is_refused_by_current:
            yield ServerAnswer(UNKNOWN, None)
            for answer in self._newly_admitted(step):
                yield answer._replace(result=UNKNOWN)
        elif step.logged.cause == Cause.SUCCEEDS:
            yield ServerAnswer(UNKNOWN, None)
            if step.is_stored:
                yield ServerAnswer(UNKNOWN, step.old)
        else:
            yield ServerAnswer(UNKNOWN, None)

    def _newly_admitted(self, step: WorldStep) -> Iterator[ServerAnswer]:
        """What the current set refused goes on to the storage."""
        new = known_of(step.new)
        verb, record = step.record.verb, step.record
        if verb == "create" and not record.subresource:
            if step.existed:
                yield ServerAnswer(EXISTS, None)
            else:
                yield ServerAnswer(_succeeds(201), self._elsewhere.stored(step, GONE, new) if not step.is_dry else None)
        elif verb == "delete":
            for left in left_by_deletion(step.old, step.exchange):
                yield ServerAnswer(_succeeds(200), left if not step.is_dry else None)
        elif verb in ("update", "patch") and not isinstance(step.old, Missing) and step.old.value is None:
            yield ServerAnswer(_succeeds(201), self._elsewhere.stored(step, GONE, new) if not step.is_dry else None)
        elif verb in ("update", "patch"):
            if step.breaks_update(step.old, new):
                yield ServerAnswer(INVALID, None)
            else:
                stored = after_write(step.old, step.exchange, self._elsewhere.stored(step, step.old, new))
                yield ServerAnswer(_succeeds(200), stored if not step.is_dry else None)
        elif not step.existed:
            yield ServerAnswer(ABSENT, None)
        elif step.exchange.is_connect:
            yield ServerAnswer(_connected(step.old), None)
        else:
            yield self._subresource_done(step, None)

    def _mutated(self, step: WorldStep) -> ServerAnswer:
        """What the candidate mutates otherwise is stored otherwise, if it is valid."""
        if step.is_last and not may_break(step.candidate.patch):
            return ServerAnswer(step.logged, None)
        new = known_of(step.new)
        if isinstance(new, Known) and step.is_made_invalid:
            return ServerAnswer(INVALID, step.unless_written)
        return ServerAnswer(
            step.logged, None if step.is_dry else step.meeting(after_write(step.old, step.exchange, new))
        )

    def _connect(self, step: WorldStep, state: State) -> ServerAnswer:
        """Admission comes before the pod is looked up (`handlers.ConnectResource`), which needs a node to connect to."""
        decision = step.candidate
        if decision.denials:
            return ServerAnswer(denied(decision), state)
        if decision.verdict is Verdict.UNDETERMINED:
            return ServerAnswer(UNKNOWN, state)
        if _is_absent(state) or (state is None and not step.existed):
            return ServerAnswer(ABSENT, state)
        return ServerAnswer(step.logged if step.is_connected else _connected(_here(step, state)), state)

    def _create(self, step: WorldStep, state: State) -> Iterator[ServerAnswer]:
        """A creation: the storage finds last that the object exists."""
        prior = step.unless_written if state is None else state
        exists = step.existed if state is None else not _is_absent(state)
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
        opens = decision.verdict is Verdict.UNDETERMINED
        if opens:
            yield ServerAnswer(UNKNOWN, prior, decision)
        if exists:
            yield ServerAnswer(UNKNOWN if opens else EXISTS, prior, decision)
        else:
            stored = prior if step.is_dry else step.meeting(self._elsewhere.stored(step, GONE, known_of(new)))
            yield ServerAnswer(UNKNOWN if opens else _succeeds(201), stored, decision)

    @staticmethod
    def _created_as_found(step: WorldStep, prior: State, *, exists: bool) -> ServerAnswer | None:
        """A creation whose decision is known: its own object is the same in every world. None where it is to be worked out."""
        alone = step.alone
        is_admitted_by_both = not step.is_finding and step.logged.cause == Cause.SUCCEEDS
        if step.around_differs or (alone is None and not is_admitted_by_both):
            return None
        if alone is not None and alone.result.cause != Cause.SUCCEEDS:
            return ServerAnswer(alone.result, prior)
        if exists:
            return ServerAnswer(EXISTS, prior)
        if alone is None:
            return ServerAnswer(step.logged, prior if step.is_dry else None)
        return ServerAnswer(step.logged, prior if step.is_dry else _mutated_later(step))

    def _subresource(self, step: WorldStep, state: State) -> Iterator[ServerAnswer]:
        """An eviction, a binding, a token: the first two ask the validating phase before they look up the pod."""
        if step.record.subresource not in _ASKS_FIRST and _is_absent(state):
            yield ServerAnswer(ABSENT, state)
            return
        decision = step.candidate
        prior = step.unless_written if state is None else state
        if decision.denials:
            yield ServerAnswer(denied(decision), prior)
        elif _is_absent(state) or (state is None and not step.existed):
            yield ServerAnswer(UNKNOWN if decision.verdict is Verdict.UNDETERMINED else ABSENT, state)
        elif decision.verdict is Verdict.UNDETERMINED:
            yield ServerAnswer(UNKNOWN, prior)
            yield self._subresource_done(step, state)._replace(result=UNKNOWN)
        else:
            yield self._subresource_done(step, state)

    def _subresource_done(self, step: WorldStep, state: State) -> ServerAnswer:
        result = step.logged if step.logged.cause not in (Cause.ABSENT, Cause.DENIED) else _succeeds(201)
        if step.is_dry or result.cause != Cause.SUCCEEDS or step.record.subresource in _NO_STORE:
            return ServerAnswer(result, state)
        if step.record.subresource == "eviction":
            *_, left = left_by_deletion(_here(step, state), step.exchange)
            return ServerAnswer(result, step.meeting(left))
        if step.record.subresource == "binding":
            return ServerAnswer(result, Later(lambda: _bound(step, _here(step, state)), _touched(state)))
        return ServerAnswer(result, Missing("", f"its {step.record.subresource} was written"))

    def _delete(self, step: WorldStep, here: Known | Missing) -> Iterator[ServerAnswer]:
        if isinstance(here, Known) and here.value is None:
            yield ServerAnswer(ABSENT, here)
            return
        decision = ADMITTED
        if self._judge.asks(step.record):
            request = self._elsewhere.deleted(step.exchange, here)
            decision = self._judge.decision_elsewhere(step.in_namespace(request), step.lister)
        prior = here
        after = [prior] if step.is_dry else [step.meeting(left) for left in left_by_deletion(here, step.exchange)]
        if decision.denials:
            yield ServerAnswer(denied(decision), prior, decision)
        elif decision.verdict is Verdict.UNDETERMINED:
            yield ServerAnswer(UNKNOWN, prior, decision)
            yield from (ServerAnswer(UNKNOWN, state, decision) for state in after)
        else:
            result = _succeeds(200)._replace(certain=not step.may_conflict)
            yield from (ServerAnswer(result, state, decision) for state in after)

    def _update(self, step: WorldStep, here: Known | Missing) -> Iterator[ServerAnswer]:
        """An update, patch or apply of what is there; what is not there some of them create."""
        if isinstance(here, Known) and here.value is None:
            if not creates(step.exchange):
                yield ServerAnswer(ABSENT, here)
                return
            request = step.in_namespace(self._elsewhere.created(step.exchange, step.lister))
        else:
            try:
                request = step.in_namespace(self._elsewhere.updated(step, here))
            except ApplyConflictError:
                yield ServerAnswer(CONFLICT, here)
                return
        yield from self._written(step, here, request)

    def _written(self, step: WorldStep, here: Known | Missing, request: ReplayRequest) -> Iterator[ServerAnswer]:
        judged = self._judge.elsewhere(request, step.lister)
        decision, written = judged.decision, known_of(judged.object)
        creates = isinstance(here, Known) and here.value is None
        if step.is_refused_as_invalid(here, written):
            yield ServerAnswer(INVALID, here, decision)
            return
        if decision.denials:
            yield ServerAnswer(denied(decision), here, decision)
            return
        stored = here if step.is_dry else step.meeting(left_by_write(here, after_write(here, step.exchange, written)))
        opens = decision.verdict is Verdict.UNDETERMINED
        if opens:
            yield ServerAnswer(UNKNOWN, here, decision)
        result = _succeeds(201 if creates else 200)._replace(certain=creates or not step.may_conflict)
        yield ServerAnswer(UNKNOWN if opens else result, stored, decision)


def _is_absent(state: State) -> bool:
    return isinstance(state, Known) and state.value is None


def _connected(pod: Known | Missing) -> RequestEnd:
    """The answer of a connection to a pod that is there (`pod/strategy.go`, `streamLocation`)."""
    if isinstance(pod, Missing):
        return UNKNOWN
    if not get(pod.value, ("spec", "nodeName")):
        return RequestEnd("error 400", 400)
    return RequestEnd(Cause.SUCCEEDS, 101, certain=False)


def _succeeds(code: int) -> RequestEnd:
    return RequestEnd(Cause.SUCCEEDS, code)


def _here(step: WorldStep, state: State) -> Known | Missing:
    """The object of a state; where both worlds are the same, the one of the log."""
    return step.old if state is None else content(state)


def _touched(state: State) -> frozenset[Place] | None:
    return state.touched if isinstance(state, Later) else None


def _places(alone: Alone | None) -> frozenset[Place]:
    paths = () if alone is None else alone.paths
    return changed_places("object", ({"path": path} for path in paths))


def _mutated_later(step: WorldStep) -> Later:
    """What a write leaves that the candidate mutates otherwise."""
    return Later(lambda: after_write(step.old, step.exchange, known_of(step.new)), _places(step.alone))


def _bound(step: WorldStep, here: Known | Missing) -> Known | Missing:
    return here if isinstance(here, Missing) else after_binding(here, step.exchange, None)
