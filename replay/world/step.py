"""One request of an object with everything that the log tells about it, computed on demand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec.structs import replace

from replay.admission.conversion import Object
from replay.admission.decision import Decision, Verdict
from replay.audit.answer import denied_by
from replay.audit.event import CREATED
from replay.audit.place import LogPosition
from replay.kube import json_patch
from replay.kube.attributes import Attributes, Basis, Missing, Operation
from replay.kube.json_patch import JSONPatchError
from replay.kube.lister import Lister
from replay.reconstruct import reconstructor
from replay.reconstruct.cluster import NAMESPACE
from replay.reconstruct.history.effect import NO_WRITE
from replay.reconstruct.history.old_object import OldObjects, sent_revision
from replay.reconstruct.reached import NAMED_ABSENT, NAMESPACE_ABSENT, progress, progress_of
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.record.known import GONE, Known
from replay.reconstruct.request import Reached, ReplayRequest
from replay.world.creation import uids_of_controllers
from replay.world.existence import Existence, is_creation
from replay.world.judge import ADMITTED, Judge, JudgedRequest
from replay.world.lookup import SAME_LOOKUPS, DifferingLookups, WorldLister
from replay.world.namespace import NamespaceAt
from replay.world.patching import is_strategic_patch
from replay.world.result import INVALID, Cause, CausingRequest, IsolatedEnd, answered, label
from replay.world.state import DeferredObject, State, content, differ_in_managers, known_or_missing, same_object
from replay.world.timeline import OwnerChange
from replay.world.version import WorldVersion

_OF_THE_NAMESPACE = (NAMESPACE_ABSENT, NAMED_ABSENT)
_LIFECYCLE = "NamespaceLifecycle"


class WorldStep:
    """A request of the log, evaluated for a possible state under the candidate."""

    def __init__(
        self,
        step: reconstructor.RebuildStep,
        rebuilder: Reconstructor,
        judge: Judge,
        namespace: NamespaceAt,
        existence: Existence,
    ) -> None:
        """Keep the inputs. `existence` says whether the log's object exists.

        `namespace` is the request's namespace under the candidate.
        """
        self.exchange = step.exchange
        self.record = self.exchange.record
        self.place = LogPosition(self.record.seq, 0)
        self.logged = answered(self.record)
        self.is_dry = self.exchange.dry_run
        self.namespace = namespace
        self.is_last = False
        """True for the last request of the object: nothing reads what it leaves."""
        self.precedes_apply = False
        """True if a server-side apply follows: then the owners of fields matter."""
        self.is_finding = False
        """True if baseline and candidate decide the log's own request differently."""
        self.isolated_end: IsolatedEnd | None = None
        """The end of the finding taken alone, None if it must be evaluated."""
        self.is_undetermined = False
        """True if only the candidate's verdict about the log's own request is unknown."""
        self.owners: Sequence[str] | None = None
        """UIDs of the owners of the object that the request creates, None before they are looked up."""
        self.lookups: DifferingLookups = SAME_LOOKUPS
        """Differing objects that policies and authorizers look up."""
        self.ending: DifferingLookups | None = None
        """Differing objects that may end the request before admission, None if there are none."""
        self.owner: OwnerChange | None = None
        """Change of an owner because of which a controller does not send the request."""
        self.version: WorldVersion | None = None
        """Version of the object under the candidate, None if unknown."""
        self._existence = existence
        self._position = existence.passed
        self._rebuild_step = step
        self._rebuilder = rebuilder
        self._judge = judge

    def find(self, isolated_end: IsolatedEnd | None) -> None:
        """Take over the first pass's finding, and how it ends by itself, as far as known."""
        self.is_finding = True
        self.is_undetermined = isolated_end is not None and isolated_end.result.cause == Cause.UNKNOWN
        self.isolated_end = None if self.is_undetermined else isolated_end

    @property
    def old_objects(self) -> OldObjects:
        """The history of the object in the log."""
        return self._rebuild_step.old_objects

    @cached_property
    def as_cause(self) -> CausingRequest:
        """The request, in the form in which consequences name their cause."""
        return CausingRequest(self.record.audit_id, label(self.record))

    @cached_property
    def existed_before(self) -> bool:
        """Return whether the object existed in the log before the request."""
        return self._existence.exists_after(self._position)

    @cached_property
    def request(self) -> ReplayRequest:
        """The request as in the log, rebuilt on demand because most steps do not need it."""
        return self._rebuilder.of_step(self._rebuild_step)

    @cached_property
    def log_lister(self) -> Lister:
        """The cluster of the log at the time of the request."""
        return self._rebuilder.cluster.at(self.record)

    @property
    def lookups_differ(self) -> bool:
        """Return whether the namespace, or an object that policies look up, differs from the log."""
        return self.namespace.differs or bool(self.lookups.states)

    @cached_property
    def is_decided_as_looked_up_in_log(self) -> bool:
        """Return whether what the candidate looks up makes no difference to its decision about the log's request."""
        if not self.lookups_differ:
            return True
        is_told = self.logged.cause == Cause.SUCCEEDS and self.record.verb in ("update", "patch")
        return is_told and not self.is_redefined and self.candidate == self.decisions[1]

    @cached_property
    def is_redefined(self) -> bool:
        """Return whether the definition of the resource differs from the log."""
        return self.lookups.redefines(self.record, self.log_lister)

    @cached_property
    def failed_by_definition(self) -> bool:
        """Return whether the request failed in the log because of a definition that differs under the candidate."""
        return self.is_redefined and self._judge.failed_by_definition(self.request, self.old, self.log_lister)

    @cached_property
    def lister(self) -> Lister:
        """The cluster that the candidate's policies see."""
        if not self.lookups_differ:
            return self.log_lister
        states = dict(self.lookups.states)
        if self.namespace.state is not None:
            states[NAMESPACE.group, NAMESPACE.kind, "", self.record.namespace] = content(self.namespace.state)
        return WorldLister(self.log_lister, states)

    def in_namespace(self, request: ReplayRequest) -> ReplayRequest:
        """Return a request with the namespace of the candidate."""
        if not self.namespace.differs or request.attributes.namespace_object is None:
            return request
        value = self.namespace.value
        attributes = replace(request.attributes, namespace_object=value)
        original = request.before_mutation
        if isinstance(original, Attributes):
            original = replace(original, namespace_object=value)
        return replace(request, attributes=attributes, before_mutation=original)

    @cached_property
    def is_reached(self) -> bool:
        """Return whether policies ran, as far as the log tells."""
        if self.plugin:
            return True
        answer = progress(self.exchange) if not self.exchange.succeeded else None
        how_far = answer or progress_of(self.exchange, self.old_objects, self._rebuilder.plugins)
        return how_far.reached is not Reached.FAILED_BEFORE

    @cached_property
    def fails_anyway(self) -> bool:
        """Return whether the request failed in the log for a reason that does not depend on the candidate.

        Such reasons are its authorization, its decoding and its own object.
        """
        if self.exchange.succeeded:
            return False
        if self.logged.cause == Cause.DENIED:
            return self.is_denied_by_shared_plugin
        how_far = progress(self.exchange)
        # If the record does not show how far the request got, the object decides that.
        if how_far is None or how_far.reached is not Reached.FAILED_BEFORE or self.failed_by_definition:
            return False
        is_open = how_far.plugin == _LIFECYCLE or how_far.reason in _OF_THE_NAMESPACE
        return not is_open and not self.is_invalid_by_current

    @cached_property
    def plugin(self) -> str:
        """The built-in plugin that denied the request in the log, empty if none did."""
        return denied_by(self.record.status_message, self.record.resource)

    @cached_property
    def is_denied_by_shared_plugin(self) -> bool:
        """Return whether a built-in plugin that both sets share denied it, so that it does not run again."""
        if not self.plugin:
            return False
        current, _ = self.decisions
        is_reproduced = any(denial.policy == self.plugin for denial in current.denials)
        return not is_reproduced and current.verdict is not Verdict.UNDETERMINED

    @property
    def conflicts(self) -> bool:
        """Return whether the request names an outdated version under the candidate.

        In the log it named an outdated one too, or found no object. An eviction that policies refused reveals neither,
        because admission comes first.
        """
        is_open = self.record.subresource == "eviction" and self.logged.cause == Cause.DENIED
        is_told = is_open or self.logged.cause in (Cause.CONFLICT, Cause.ABSENT)
        return is_told and self.version is not None and self._fits is False

    @property
    def may_conflict(self) -> bool:
        """Return whether the request names a version of the log that differs here.

        The client may have read another version under the candidate.
        """
        is_decided = self.logged.cause in (Cause.SUCCEEDS, Cause.DENIED)
        return self.version is not None and is_decided and self._fits is False

    @cached_property
    def _fits(self) -> bool | None:
        return self.version.fits(self.exchange, self.old_objects.history) if self.version is not None else None

    @cached_property
    def is_of_new_version(self) -> bool:
        """Return whether the request is a creation that names a version.

        The storage refuses these before any lookup (`etcd3.store.Create`).
        """
        return is_creation(self.record) and not self.is_dry and bool(sent_revision(self.exchange))

    @property
    def is_connected(self) -> bool:
        """Return whether the log's answer shows the result of a connection to the pod."""
        return self.logged.cause not in (Cause.ABSENT, Cause.DENIED)

    @cached_property
    def is_absent_in_both(self) -> bool:
        """Return whether the log's request found no object, and the candidate has none either."""
        if self.logged.cause != Cause.ABSENT or self.existed_before or self.exchange.is_connect or self.is_of_namespace:
            return False
        return not (self.record.verb == "create" and (self.is_reached or self.failed_by_definition))

    @cached_property
    def is_of_namespace(self) -> bool:
        """Return whether the request failed in the log because of its namespace."""
        how_far = progress(self.exchange)
        return how_far is not None and (how_far.plugin == _LIFECYCLE or how_far.reason in _OF_THE_NAMESPACE)

    @cached_property
    def is_invalid_by_current(self) -> bool:
        """Return whether the log's object was invalid because the baseline had mutated it."""
        if self.record.code != INVALID.code or self.logged.cause == Cause.DENIED or self.is_reached:
            return False
        mutation = self._rebuilder.mutation
        if not (mutation if isinstance(mutation, bool) else mutation(self.record)):
            return False
        current, _ = self.decisions
        original = self.request.before_mutation
        body = known_or_missing(original.object) if isinstance(original, Attributes) else original
        if not current.patch or isinstance(body, Missing):
            return False
        try:
            mutated = Known(json_patch.apply(body.value, current.patch), Basis.RECONSTRUCTED, body.holes)
        except JSONPatchError:
            return False
        return self._judge.leaves_invalid(self.request, current.patch, lambda: mutated)

    @cached_property
    def is_refused_by_current(self) -> bool:
        """Return whether the baseline refused the log's request, as far as its decision is known."""
        if self.is_invalid_by_current:
            return True
        if self.logged.cause != Cause.DENIED:
            return False
        current, _ = self.decisions
        return bool(current.denials) or current.verdict is Verdict.UNDETERMINED

    @cached_property
    def decisions(self) -> tuple[Decision, Decision]:
        """The decisions of the baseline and the candidate about the log's request."""
        current, candidate = self._judge.decide(self.request, self.log_lister)
        return current, candidate

    @cached_property
    def candidate(self) -> Decision:
        """The candidate's decision about the request's own object, in the namespace of the candidate."""
        if not self._judge.may_match(self.record):
            return ADMITTED
        if not self.lookups_differ:
            return self.decisions[1]
        return self._judge.decide(self.in_namespace(self.request), self.lister)[1]

    def decided(self) -> JudgedRequest:
        """Return the candidate's decision about a creation, and the object that it would store."""
        request = self.in_namespace(self.request)
        # If neither set mutates the object, it is the one in the log.
        if not self.candidate.patch and not self.decisions[0].patch:
            return JudgedRequest(self.candidate, request.attributes.object)
        return JudgedRequest(self.candidate, self.new)

    @cached_property
    def new(self) -> Object:
        """The object that the candidate's validating phase sees."""
        return self._judge.new_object(self.in_namespace(self.request), self.lister)

    @cached_property
    def is_made_invalid(self) -> bool:
        """Return whether the candidate's mutations or its definition of the kind make the object invalid."""
        if (
            self.is_redefined
            and self.is_creation
            and self._judge.breaks_definition(self.exchange.kind, known_or_missing(self.new), GONE, self.lister)
        ):
            return True
        request = self.in_namespace(self.request)
        return self._judge.leaves_invalid(request, self.candidate.patch, lambda: known_or_missing(self.new))

    @property
    def is_newly_denied(self) -> bool:
        """Return whether the candidate denies the log's own request, which the baseline admits."""
        if self.isolated_end is not None or not self.is_finding:
            return self.isolated_end is not None and self.isolated_end.result.cause == Cause.DENIED
        if self.is_undetermined or not self.is_reached:
            return False
        current, candidate = self.decisions
        return bool(candidate.denials) and not current.denials

    @property
    def causing_request(self) -> CausingRequest | None:
        """The request that changed a looked-up object.

        None if this request is denied by itself, because it is then its own cause.
        """
        return (
            self.lookups.causing_request
            if self.lookups.causing_request is not None and not self.is_newly_denied
            else None
        )

    @cached_property
    def is_stored(self) -> bool:
        """Return whether the log's request stored something."""
        if is_creation(self.record):
            return self.exchange.succeeded and not self.is_dry
        return (
            self.exchange.succeeded and not self.is_dry and self.old_objects.history.index_of(self.exchange) is not None
        )

    @property
    def stores(self) -> bool:
        """Return whether the request stores the object if it succeeds."""
        is_write = self.record.verb in ("create", "update", "patch", "delete") and not self.is_dry
        return is_write and self.record.subresource not in NO_WRITE

    @cached_property
    def is_creation(self) -> bool:
        """Return whether the log's request created the object itself."""
        if self.record.subresource or self.record.verb == "delete":
            return False
        if self.record.verb == "create" or self.exchange.succeeded:
            return self.record.verb == "create" or self.record.code == CREATED
        return self.request.attributes.operation is Operation.CREATE

    @cached_property
    def old(self) -> Known | Missing:
        """The object that the request found in the log."""
        # A creation that failed may have found an existing object.
        if self.is_creation:
            return Known(None, Basis.RECORDED) if self.exchange.succeeded or not self.existed_before else self._last
        if self.exchange.concerns_parent and self.request.attributes.old_object is not None:
            return known_or_missing(self.request.attributes.old_object)
        return self._last

    @cached_property
    def _last(self) -> Known | Missing:
        return self.old_objects.last(self.exchange)

    @cached_property
    def after(self) -> Known | Missing:
        """The object after the log's request."""
        place = self.old_objects.history.index_of(self.exchange)
        return self.old if place is None else self.old_objects.history.after(place)

    @cached_property
    def is_strategic(self) -> bool | None:
        """Return whether a map patch is a strategic merge patch, as far as its effect tells."""
        return is_strategic_patch(self.exchange, lambda: self.old)

    @property
    def is_removed(self) -> bool:
        """Return whether the log's object no longer exists after the request."""
        return not self._existence.exists_after(self._position + 1)

    @property
    def state_after_refusal(self) -> State:
        """The state after a refusal: the object before the request, if the log's request stored something."""
        if not self.is_stored:
            return None
        return GONE if self.is_creation else DeferredObject(lambda: self.old)

    def state_after_write(self, state: Known | Missing) -> State:
        """Return the state after a write.

        None if it equals what the log's request left, so that the object is as in the log again.
        """
        if not self.is_stored or isinstance(state, Missing) or isinstance(self.after, Missing):
            return state
        is_same = same_object(state, self.after) and not (self.precedes_apply and differ_in_managers(state, self.after))
        return None if is_same else state

    @cached_property
    def uids_of_owners(self) -> Sequence[str]:
        """The UIDs of the owners of the object that the request creates."""
        return self.owners if self.owners is not None else uids_of_controllers(self.exchange)
