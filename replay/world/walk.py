"""Follows one object under the candidate, request by request."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection as Sized
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from operator import attrgetter

from msgspec import Struct, field

from replay.admission.decision import Denial
from replay.audit.event import CREATED, RequestRecord
from replay.audit.place import LogPosition
from replay.errors import UNFORESEEN
from replay.kube.gvk import GroupResource
from replay.kube.lister import ObjectKey
from replay.kube.rbac_authorizer import RBACAuthorizers
from replay.reconstruct import reconstructor
from replay.reconstruct.operation import creates
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.record.body import UnusableBodyError
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import GONE
from replay.world.before_log import StatesBeforeLog
from replay.world.collecting import CollectionPredictor, CollectionStep
from replay.world.collection import Collection, CollectionCursor, Collections
from replay.world.controller import GARBAGE_COLLECTOR, is_controller
from replay.world.creation import UnnamedCreation, may_apply
from replay.world.existence import Existence
from replay.world.judge import Judge
from replay.world.lookup import (
    SAME_LOOKUPS,
    DifferingLookups,
    LookupsInTime,
)
from replay.world.namespace import NamespaceChanges, namespaces_at
from replay.world.owner import (
    CREATE_PODS_ONCE,
    TEMPLATE,
    TEMPLATES_OF,
    is_finalized,
    is_missing,
    owners_of,
    retry,
    state_if_unsent,
    template_of,
)
from replay.world.pod import ControllerPods, RefusedPods, creates_pods
from replay.world.request_adapter import RequestAdapter
from replay.world.result import (
    ABSENT,
    FORBIDDEN,
    NOT_SENT,
    UNKNOWN,
    Cause,
    CausingRequest,
    Consequence,
    IsolatedEnd,
    RequestEnd,
    label,
    merged_end,
)
from replay.world.server.answer import ServerAnswer, denied
from replay.world.server.server import Server
from replay.world.state import SAME_BRANCHES, Branch, DeferredObject, are_alike, merged_branches, with_content
from replay.world.step import WorldStep
from replay.world.timeline import OwnerChange, OwnerChanges, Presence, WorldChange, presence_at, states_after_deletion
from replay.world.version import WorldVersion, named_uid


class WalkContext(Struct, frozen=True):
    """The context of an object's walk: the collections of the log, and namespaces and owners under the candidate.

    `findings` are the sequence numbers of the object's requests, and of collections, that the sets decide differently.
    The value is the end taken alone, None if it must be evaluated.
    """

    collections: Collections
    findings: Mapping[int, IsolatedEnd | None] = field(default_factory=dict)
    namespaces: NamespaceChanges = field(default_factory=dict)
    owners: OwnerChanges = field(default_factory=dict)
    owned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The UIDs of an object's owners, by the object's UID."""
    owner_uids: Sized[str] = ()
    """UIDs of the objects that own others."""
    first_denials: Mapping[int, str] = field(default_factory=dict)
    """The name of the first object whose deletion the candidate denies, by sequence number of the collection request.
    """
    refused_writes: frozenset[int] = frozenset()
    """Sequence numbers of the writes that the candidate's authorizers refuse."""
    newly_allowed: frozenset[int] = frozenset()
    """Sequence numbers of the writes that only the candidate's authorizers allow."""
    unknown: frozenset[int] = frozenset()
    """Sequence numbers of the writes for which the candidate's authorization is unknown."""
    unnamed_creations: Mapping[tuple[str, str, str], tuple[UnnamedCreation, ...]] = field(default_factory=dict)
    """Newly allowed creations without a name in the log, in order, by group, resource and namespace."""
    differs_only_before_log: bool = False
    """A flag that the objects differ only if they existed before the log."""
    kinds: Mapping[tuple[str, str], str] = field(default_factory=lambda: {("", "namespaces"): "Namespace"})
    """The kinds that decisions look up, by group and resource."""
    objects: LookupsInTime = field(default_factory=lambda: LookupsInTime({}))
    """Looked-up objects that differ, except namespaces."""

    def lookups(self, record: RequestRecord) -> DifferingLookups:
        """Return the differing objects that a request looks up. In kcp workspaces none are followed."""
        if not self.objects or record.workspace:
            return SAME_LOOKUPS
        return self.objects.at(record.seq, record.namespace)


class WalkResult(Struct):
    """Result of one object: how its requests end, and how the object and its existence differ."""

    consequences: list[tuple[LogPosition, Consequence]] = field(default_factory=list)
    """The consequences by place.

    Those of a collection are at its first place, for all objects without a place of their own.
    """
    shown_ends: list[tuple[LogPosition, RequestEnd]] = field(default_factory=list)
    """Ends that `--outcomes` shows instead, for requests whose object may differ since before the log."""
    changes: list[WorldChange] = field(default_factory=list)
    namespaces: dict[str, list[WorldChange]] = field(default_factory=dict)
    objects: dict[ObjectKey, list[WorldChange]] = field(default_factory=dict)
    """Looked-up objects that differ, except namespaces."""
    owners: dict[str, list[OwnerChange]] = field(default_factory=dict)
    refused: list[RefusedPods] = field(default_factory=list)
    """Intervals in which a controller's pods are refused, for objects that exist only under the candidate."""


class Walker(Struct, frozen=True):
    """Walks objects through all of their requests."""

    reconstructor: Reconstructor
    judge: Judge
    request_adapter: RequestAdapter
    context: WalkContext
    authorizers: RBACAuthorizers = field(default_factory=RBACAuthorizers)
    before_log: StatesBeforeLog | None = None
    """Finds differences from before the log. None if they are not needed."""

    def walk(self, records: Sequence[RequestRecord]) -> WalkResult:
        """Return the result of one object, with all of its records in order, empty if its bodies are unusable.

        A first walk trusts the bodies; if it fails, a second one checks them.
        """
        if self.context.differs_only_before_log and (
            self.before_log is None or not self.before_log.may_differ(records[0])
        ):
            return WalkResult()
        for checked in (False, True):
            with suppress(UnusableBodyError, *UNFORESEEN):
                return _ObjectWalk(self, list(self.reconstructor.steps(records, checked=checked))).run()
        return WalkResult()


class _ObjectWalk:
    """The walk of one object."""

    def __init__(self, walker: Walker, steps: list[reconstructor.RebuildStep]) -> None:
        self._walker = walker
        self._context = walker.context
        self._server = Server(walker.judge, walker.request_adapter)
        self._steps = steps
        self._outcome = WalkResult()
        self._branches: tuple[Branch, ...] = SAME_BRANCHES
        self._earlier: tuple[Branch, ...] | None = None if walker.before_log is not None else ()
        """Other states that the object may have since before the log. None before the first request."""
        record = steps[0].exchange.record
        self._existence = Existence(steps, walker.reconstructor.cluster)
        self._collector = CollectionPredictor(
            self._server,
            walker.judge,
            walker.request_adapter,
            walker.reconstructor,
            walker.context.findings,
            walker.context.first_denials,
            steps,
            self._existence,
        )
        self._uid = ""
        self._version = WorldVersion()
        self._is_earlier = False
        self._last_apply = max(
            (step.exchange.record.seq for step in steps if may_apply(step.exchange.record)), default=-1
        )
        self._unnamed = walker.context.unnamed_creations.get((record.api_group, record.resource, record.namespace), ())
        """Newly allowed creations without a name, one of which may have created the object."""
        resource = GroupResource(record.api_group, record.resource)
        self._is_trusted = walker.reconstructor.trust.is_trusted(resource)
        """A flag that the log has no gaps here. It is known without the history, which many walks do not need."""
        self._is_origin_seen = self._is_trusted or not self._existence.exists_now
        """A flag that the log shows the creation of the log's object, if the object exists."""
        self._is_lookup = (record.api_group, record.resource) in walker.context.kinds
        self._pods = ControllerPods(steps, walker.judge, walker.request_adapter) if creates_pods(record) else None

    def run(self) -> WalkResult:
        meetings = CollectionCursor(self._context.collections.requests_about(self._steps[0].exchange.record))
        for step in sorted(self._steps, key=lambda each: each.exchange.record.seq):
            if meetings.are_due(step.exchange.record.seq):
                self._process_collections(meetings, step.exchange.record.seq)
            self._process_request(step)
            # These objects differ in nothing else, so the rest of the object is as in the log.
            if self._context.differs_only_before_log and not self._earlier:
                return self._outcome
        if meetings.are_due(inf):
            self._process_collections(meetings, inf)
        return self._outcome

    def _process_collections(self, meetings: CollectionCursor, seq: float) -> None:
        """Process the collection requests up to a place in the log."""
        for collection in meetings.until(seq, self._uid, lambda: self._collector.may_change(self._branches)):
            self._collect(collection)

    def _process_request(self, rebuild_step: reconstructor.RebuildStep) -> None:
        """Process one request."""
        record = rebuild_step.exchange.record
        if len(self._branches) > 1:
            self._branches = states_after_deletion(self._branches, record.received)
        previous = self._branches
        lookups = self._context.lookups(record)
        ending = lookups if lookups.may_end_differently(record) else None
        if ending is None and self._is_unsent(record):
            self._record_unsent(rebuild_step.exchange)
            return
        step: WorldStep | None = None
        place = LogPosition(record.seq, 0)
        answers: list[tuple[ServerAnswer, Branch]] = []
        namespace = record.namespace if record.resource != "namespaces" else ""
        for at in namespaces_at(self._context.namespaces, namespace, place, record.workspace):
            step = WorldStep(rebuild_step, self._walker.reconstructor, self._walker.judge, at, self._existence)
            step.is_last = rebuild_step is self._steps[-1]
            step.precedes_apply = record.seq < self._last_apply
            if record.seq in self._context.findings:
                step.find(self._context.findings[record.seq])
            step.version = self._version
            step.owners = self._context.owned.get(record.response_uid)
            step.owner, step.ending = self._owner_of(step), ending
            if lookups.states and (lookups.redefines(record, step.log_lister) or self._walker.judge.consults(record)):
                step.lookups = lookups
            for branch in previous:
                here = [self._as_far_as_shown(step, branch, answer) for answer in self._answers(step, branch)]
                answers += [(answer, _branch(branch, answer, step)) for answer in here]
        assert step is not None
        result = merged_end([answer.result for answer, _ in answers])
        # The write comes after the answers, because they compare with the version that the request found.
        if step.stores and result.cause == Cause.SUCCEEDS:
            self._version.write(record.seq, record.response_uid if step.is_creation else None)
        self._drop_impossible_creations(step)
        if not self._is_trusted:
            is_created = step.is_creation and step.exchange.succeeded
            self._is_origin_seen = is_created or (self._is_origin_seen and step.existed_before)
        self._record_end(step, result, [answer for answer, _ in answers])
        others = self._states_since_before_log(step, result)
        self._branches = merged_branches([branch for _, branch in answers])
        self._existence.count_request()
        self._earlier = tuple(each for each in others if not self._is_met(each))
        self._identify(step.exchange, previous)
        self._record_change(place, previous)
        if self._pods is not None and not self._branches == SAME_BRANCHES == previous:
            self._pods.follow(step, self._branches, is_alone=not self._existence.exists_now)
            self._outcome.refused = self._pods.refused

    def _states_since_before_log(self, step: WorldStep, result: RequestEnd) -> tuple[Branch, ...]:
        """Return the states of the object that may differ since before the log, after a request.

        If the request ends differently in one of them, record the end that `--outcomes` shows.
        """
        if self._earlier is None and self._walker.before_log is not None:
            self._earlier = self._walker.before_log.branches(step)
        if not self._earlier:
            return ()
        answers = [(answer, branch) for branch in self._earlier for answer in self._answers(step, branch)]
        told = merged_end([result, *(answer.result for answer, _ in answers)])
        if any(answer.result.code != result.code for answer, _ in answers):
            told = told._replace(code=0, certain=False)
        is_own = result.cause == Cause.DENIED and step.is_newly_denied
        if not is_own and (told.cause, told.code) != (result.cause, result.code):
            self._outcome.shown_ends.append((step.place, told))
        # A client that creates an object expects its name to be free, so that no older object is assumed from here on.
        if step.is_creation and result.cause == Cause.SUCCEEDS:
            return ()
        return merged_branches([_branch(branch, answer, step) for answer, branch in answers])

    def _is_met(self, earlier: Branch) -> bool:
        """Return whether a state that may differ since before the log equals the object by now."""
        if earlier.is_absent and not self._existence.exists_now:
            return self._branches == SAME_BRANCHES
        return any(are_alike(earlier.state, branch.state) for branch in self._branches)

    def _as_far_as_shown(self, step: WorldStep, branch: Branch, answer: ServerAnswer) -> ServerAnswer:
        """Return an answer as certain as the log allows.

        A creation without a name may have created what an apply creates, so that the apply updates it. In a log with
        gaps, a missing line may have made two objects equal again, or have created an object that the candidate would
        refuse. Only the answer to the request itself shows whether the log's object exists.
        """
        cause, logged = answer.result.cause, step.logged.cause
        if answer.result.code == CREATED and step.record.verb == "patch" and self._may_be_created(step, branch):
            answer = answer._replace(result=answer.result._replace(code=0, certain=False))
        if self._is_trusted or (cause == Cause.DENIED and step.is_newly_denied):
            return answer
        if cause == logged:
            is_there = branch.state is None and not step.is_creation and step.existed_before
            return answer._replace(result=UNKNOWN) if is_there and not self._is_origin_seen else answer
        if branch.state is not None or cause in (Cause.EXISTS, Cause.ABSENT):
            return answer._replace(result=UNKNOWN)
        if cause == Cause.SUCCEEDS and step.record.verb in ("update", "patch") and creates(step.exchange):
            return answer._replace(result=answer.result._replace(code=0))  # 200 for an update, 201 for a creation
        return answer

    def _is_unsent(self, record: RequestRecord) -> bool:
        """Return whether a controller, which sees that the object is absent, has nothing to do."""
        if not self._branches[0].is_absent or len(self._branches) > 1 or not is_controller(record.user.username):
            return False
        is_creation = record.verb == "create" and not record.subresource
        return not (
            is_creation or record.user.username == GARBAGE_COLLECTOR or record.seq in self._context.refused_writes
        )

    def _record_unsent(self, exchange: Exchange) -> None:
        """Record that a controller does not send a request, because the object is absent."""
        record, causing_request = exchange.record, self._branches[0].causing_request
        place = LogPosition(record.seq, 0)
        self._outcome.consequences.append((place, Consequence(NOT_SENT, causing_request)))
        self._existence.count_request()
        self._identify(exchange, self._branches)
        self._record_change(place, self._branches)

    def _identify(self, exchange: Exchange, branches: tuple[Branch, ...]) -> None:
        """Take the UID of the log's object from an answer."""
        record = exchange.record
        if record.verb == "delete" or not (exchange.succeeded and exchange.concerns_parent) or exchange.dry_run:
            return
        self._uid = record.response_uid or record.object_uid or self._uid
        if not record.subresource and (record.verb == "create" or record.code == CREATED):
            self._is_earlier = all(branch.state is not None and not branch.is_absent for branch in branches)

    def _answers(  # noqa: C901, PLR0912 - the order of the server, one answer for each step
        self, step: WorldStep, branch: Branch
    ) -> Iterator[ServerAnswer]:
        """Yield the possible answers in one branch: first from the object's surroundings, then from the server."""
        controls = is_controller(step.record.user.username)
        is_creation = step.record.verb == "create" and not step.record.subresource
        # `unknown`, `refused_writes` and `newly_allowed` come first: on the server, authorization precedes the rest.
        if step.record.seq in self._context.unknown:
            yield ServerAnswer(UNKNOWN, step.state_after_refusal if branch.state is None else branch.state)
            for answer in self._server.answers(step, branch.state):
                yield answer._replace(result=UNKNOWN)
        elif step.record.seq in self._context.refused_writes:
            yield ServerAnswer(FORBIDDEN, step.state_after_refusal if branch.state is None else branch.state)
        elif step.record.seq in self._context.newly_allowed:
            yield from self._server.newly_allowed(step, branch.state, is_open=self._may_be_created(step, branch))
        elif step.logged.cause == Cause.ABSENT and self._may_be_created(step, branch):
            yield ServerAnswer(UNKNOWN, branch.state, causing_request=self._unnamed[0].as_cause)
        elif (
            step.ending is not None
            and (may_decide_differently := self._end_before_admission(step, step.ending)) is not None
        ):
            prior = step.state_after_refusal if branch.state is None else branch.state
            yield ServerAnswer(may_decide_differently, prior, causing_request=step.ending.causing_request)
        elif (owner := step.owner) is not None:
            yield ServerAnswer(NOT_SENT, state_if_unsent(owner.presence, step), causing_request=owner.causing_request)
        elif step.namespace.is_absent:
            yield self._without_namespace(step, controls=controls)
        # The plugin NamespaceLifecycle refuses a creation in a terminating namespace (`Lifecycle.Admit`).
        elif step.namespace.is_terminating and is_creation:
            yield ServerAnswer(NOT_SENT if controls else FORBIDDEN, branch.state)
        elif branch.state is None and not step.lookups_differ:
            yield from self._server.same_world.answers(step) if step.is_finding else [ServerAnswer(step.logged, None)]
        elif (controls and branch.is_absent and not is_creation) or is_finalized(step, branch.state):
            yield ServerAnswer(NOT_SENT, branch.state)
        else:
            for answer in self._server.answers(step, branch.state):
                # A controller that sees the object in its cache does not send the creation.
                is_seen = controls and answer.result.cause == Cause.EXISTS != step.logged.cause
                yield answer._replace(result=NOT_SENT) if is_seen else answer

    def _may_be_created(self, step: WorldStep, branch: Branch) -> bool:
        """Return whether an absent object may exist after all.

        A newly allowed creation without a name may have created it.
        """
        if not self._unnamed or self._unnamed[0].seq > step.record.seq:
            return False
        return not (step.existed_before if branch.state is None else not branch.is_absent)

    def _drop_impossible_creations(self, step: WorldStep) -> None:
        """Drop the creations without a name that cannot have created this object.

        It existed before them, or was deleted after them.
        """
        if not self._unnamed or self._unnamed[0].seq > step.record.seq:
            return
        is_there = any(
            step.existed_before if branch.state is None else not branch.is_absent for branch in self._branches
        )
        if is_there or self._deletes_whatever_is_there(step):
            self._unnamed = self._unnamed[bisect_left(self._unnamed, step.record.seq, key=attrgetter("seq")) :]

    def _deletes_whatever_is_there(self, step: WorldStep) -> bool:
        """Return whether a deletion leaves nothing in any case: the log's found nothing, and nothing refuses it."""
        record = step.record
        if record.verb != "delete" or step.is_dry or step.logged.cause not in (Cause.ABSENT, Cause.SUCCEEDS):
            return False
        is_let_in = record.seq not in self._context.refused_writes and record.seq not in self._context.unknown
        return is_let_in and not named_uid(step.exchange) and not self._walker.judge.may_match(record)

    def _end_before_admission(self, step: WorldStep, lookups: DifferingLookups) -> RequestEnd | None:
        """Return how a request ends before admission, if differently from the log."""
        return lookups.end_before_admission(step.record, step.log_lister, self._walker.authorizers)

    def _owner_of(self, step: WorldStep) -> OwnerChange | None:
        """Return the owner change because of which a request is not sent.

        The owner is absent for a creation, and present for a deletion by the garbage collector.
        """
        if not self._context.owners:
            return None
        is_creation = step.record.verb == "create" and not step.record.subresource
        if not is_creation and step.record.user.username != GARBAGE_COLLECTOR:
            return None
        uids = step.uids_of_owners if is_creation else self._owners_of(step)
        changes = (presence_at(self._context.owners, uid, step.place) for uid in uids)
        return next((each for each in changes if each is not None and is_missing(each, step, is_creation)), None)

    def _owners_of(self, step: WorldStep) -> Sequence[str]:
        """Return the UIDs of the owners of the existing object."""
        uids = self._context.owned.get(self._uid)
        return uids if uids is not None else owners_of(step.old)

    def _without_namespace(self, step: WorldStep, *, controls: bool) -> ServerAnswer:
        if controls:
            return ServerAnswer(NOT_SENT, GONE)
        if step.fails_anyway:
            return ServerAnswer(step.logged, GONE)
        # `handlers.ConnectResource` runs admission before it looks up the pod, so that a denial comes before a 404.
        if step.exchange.is_connect and step.decisions[1].denials:
            return ServerAnswer(denied(step.decisions[1]), GONE)
        return ServerAnswer(ABSENT, GONE)

    def _record_end(self, step: WorldStep, result: RequestEnd, answers: list[ServerAnswer]) -> None:
        """Record how a request ends, unless everything about it is as in the log."""
        if result == step.logged and not step.is_finding:
            return
        was_same = self._branches == SAME_BRANCHES and not step.lookups_differ
        if was_same and result == step.logged and all(answer.state is None for answer in answers):
            return
        differs = result.cause != step.logged.cause
        causing_request = self._causing_request(step, answers)
        # In a log with gaps, a missing line may be the cause of what is unknown.
        is_first = was_same and causing_request is None and (self._is_trusted or result.cause != Cause.UNKNOWN)
        is_root = is_first or (result.cause == Cause.DENIED and step.is_newly_denied)
        denials = _denials(answers)
        again = retry(step, result)
        consequence = Consequence(
            result,
            None if is_root or not differs else causing_request,
            is_root and differs,
            differs,
            denials if result.cause == Cause.DENIED else None,
            retry=again,
            own=step.as_cause if again is not None else None,
        )
        self._outcome.consequences.append((step.place, consequence))

    def _causing_request(self, step: WorldStep, answers: Iterable[ServerAnswer]) -> CausingRequest | None:
        """Return the earlier request that caused a difference, None if the request itself is the first."""
        if step.owner is not None:
            return step.owner.causing_request
        blames = [branch.causing_request for branch in self._branches if branch.causing_request is not None]
        blames += [answer.causing_request for answer in answers if answer.causing_request is not None]
        return blames[0] if blames else step.namespace.causing_request or step.lookups.causing_request

    def _collect(self, collection: Collection) -> None:
        """Process a `deletecollection` that may delete the object in the log or under the candidate."""
        previous, record = self._branches, collection.record
        if not self._collector.may_find(collection, self._uid, previous):
            return
        if record.seq in self._context.refused_writes:
            self._keep_undeleted(collection)
            return
        place = LogPosition(record.seq, collection.items.get(self._uid) or 0)
        at = namespaces_at(self._context.namespaces, record.namespace, place, record.workspace)[0]
        lookups = self._context.lookups(record) if self._walker.judge.consults(record) else SAME_LOOKUPS
        step = self._collector.collection_step(collection, self._uid, at, lookups)
        answers = [(answer, branch) for branch in previous for answer in self._collector.answers(step, branch)]
        result = merged_end([answer.result for answer, _ in answers])
        self._branches = merged_branches([_branch(branch, answer, step) for answer, branch in answers])
        differs = result.cause != step.logged.cause
        causing_request = (previous[0].causing_request or at.causing_request) if differs else None
        if differs or step.number is not None or collection.is_refused:
            denials = _denials(answer for answer, _ in answers) if result.cause == Cause.DENIED else None
            is_root = differs and causing_request is None
            consequence = Consequence(result, causing_request, is_root, differs, denials, item=step.name)
            self._outcome.consequences.append((place, consequence))
        # The log shows that the request deleted the object. States from before the log end here.
        if step.number is not None and not (step.is_held or step.exchange.dry_run):
            self._existence.record_deletion()
            self._earlier = ()
        self._record_change(place, previous)

    def _keep_undeleted(self, collection: Collection) -> None:
        """Keep the object: the candidate's authorizers refuse the deletion."""
        previous, number = self._branches, collection.items.get(self._uid)
        if number is None:
            return
        causing_request = CausingRequest(collection.record.audit_id, label(collection.record))
        self._branches = tuple(
            Branch(
                branch.state if branch.state is not None else self._collector.last_logged_object(),
                branch.causing_request or causing_request,
            )
            for branch in previous
        )
        # In the log, the request deleted the object at once.
        if self._uid not in collection.held:
            self._existence.record_deletion()
        self._record_change(LogPosition(collection.record.seq, number), previous)

    def _record_change(self, place: LogPosition, previous: tuple[Branch, ...]) -> None:
        """Record when the object changes under the candidate, and whether it exists for objects that it owns."""
        if self._branches == SAME_BRANCHES == previous:
            return
        if self._is_lookup and self._branches != previous:
            self._outcome.changes.append(WorldChange(place, tuple(map(with_content, self._branches))))
        if self._uid not in self._context.owner_uids:
            return
        changes = self._outcome.owners.setdefault(self._uid, [])
        presence = self._presence()
        state = self._branches[0].state
        is_alike = isinstance(state, DeferredObject) and not state.differs_at(TEMPLATE)
        resource = self._steps[0].exchange.record.resource
        has_template = presence is Presence.OTHER and resource in TEMPLATES_OF and not is_alike
        template = template_of(self._branches) if has_template else None
        last = (changes[-1].presence, changes[-1].template) if changes else (Presence.SAME, None)
        if (presence, template) != last:
            causing_request = next(
                (branch.causing_request for branch in self._branches if branch.causing_request), None
            )
            changes.append(OwnerChange(place, presence, causing_request, template))

    def _presence(self) -> Presence:
        is_gone = all(branch.is_absent for branch in self._branches)
        # If the object may be as in the log, or may be absent in one branch only, no difference is certain.
        if not is_gone and any(branch.state is None or branch.is_absent for branch in self._branches):
            return Presence.SAME
        if is_gone:
            return Presence.ABSENT if self._existence.exists_now else Presence.SAME
        if not self._existence.exists_now:
            return Presence.LEFT
        record = self._steps[0].exchange.record
        is_earlier = self._is_earlier and (record.api_group, record.resource) in CREATE_PODS_ONCE
        return Presence.EARLIER if is_earlier else Presence.OTHER


def _branch(branch: Branch, answer: ServerAnswer, to: WorldStep | CollectionStep) -> Branch:
    """Return a branch after an answer to a request."""
    if answer.state is None:
        return SAME_BRANCHES[0]
    return Branch(
        answer.state,
        branch.causing_request
        or answer.causing_request
        or to.namespace.causing_request
        or to.causing_request
        or to.as_cause,
    )


def _denials(answers: Iterable[ServerAnswer]) -> tuple[Denial, ...] | None:
    """Return the denials of the first answer that has some and was decided on an object that differs from the log."""
    decisions = (answer.decision for answer in answers if answer.decision is not None)
    return next((decision.denials for decision in decisions if decision.denials), None)
