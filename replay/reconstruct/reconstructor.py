"""Rebuilds requests as admission saw them from the records of an object.

If the clocks of API servers differ, each time in the log may be wrong by up to an error. Every request counts as having
run somewhere within its interval, widened by that error. A reported order still holds. An order that is no longer
certain is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from replay.audit.event import CREATED, RequestRecord
from replay.audit.format.admission_review import REVIEW
from replay.audit.part import object_ref
from replay.errors import UNFORESEEN
from replay.identity import IdentityMap
from replay.kube.attributes import Attributes, Basis, Missing, Operation, PartialObject
from replay.kube.gvk import GroupResource, GroupVersionKind
from replay.kube.schema import Schemas
from replay.reconstruct.cluster import NAMESPACE, Cluster, ClusterLister
from replay.reconstruct.collection import deleted_items, is_pending
from replay.reconstruct.history.clock import BEFORE
from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import NO_HISTORY, ObjectHistory, OldObjects
from replay.reconstruct.mutation_input import Mutators, is_changed_by_webhook, no_policies, patched
from replay.reconstruct.operation import operations_of
from replay.reconstruct.reached import RequestProgress, progress, progress_of
from replay.reconstruct.rebuild import NOT_ASKED, NULL, RebuildContext, Rebuilt, rebuild
from replay.reconstruct.record.body import UnusableBodyError
from replay.reconstruct.record.exchange import CONNECT_SUBRESOURCES, Exchange
from replay.reconstruct.record.known import Known, attribute, shown
from replay.reconstruct.request import Reached, ReplayRequest, sent_object
from replay.reconstruct.request_fields import (
    NO_KIND,
    Skeletons,
    generated_name,
    missing_name,
    missing_of,
    options_of,
    reviewed_request,
)
from replay.reconstruct.server.default_class import DefaultClasses
from replay.reconstruct.shard import as_sent_to_shard
from replay.reconstruct.trust import ALL_TRUSTED, Trust

R = TypeVar("R")
"""Status code of an apply that creates its object."""


_NO_CLASSES = DefaultClasses()


class Write(NamedTuple):
    """A write: the old object (null for a creation), and the new object that the client asked for.

    The new object is the body or the result of a patch, before any mutator.
    """

    exchange: Exchange
    request: ReplayRequest
    old: Known | Missing
    new: Known | Missing


class RebuildStep(NamedTuple):
    """A record of an object, with the object's history."""

    exchange: Exchange
    about: ObjectHistory

    @property
    def old_objects(self) -> OldObjects:
        """Return the object's history, built on demand."""
        return self.about.old_objects


class Reconstructor(Struct, frozen=True, dict=True):
    """Rebuilds the requests of a log.

    `cluster` holds the other objects. `trust` says which histories have gaps. `mutators` says what may have changed
    objects at the time. `classes` holds the default classes that the log shows. If `mutation` (or its result for a
    record) is false, `before_mutation` is `Missing` wherever it would take extra work. That is for requests that no
    mutating policy or webhook can match.
    """

    cluster: Cluster
    trust: Trust = ALL_TRUSTED
    mutators: Mutators = no_policies
    mutation: bool | Callable[[RequestRecord], bool] = True
    classes: DefaultClasses = _NO_CLASSES
    plugins: frozenset[str] = frozenset()
    """Built-in plugins that both sets evaluate.

    A request that one of them refused counts as having reached the policies.
    """

    @cached_property
    def _skeletons(self) -> Skeletons:
        return Skeletons(self.cluster.schemas_of)

    def requests(self, records: Sequence[RequestRecord]) -> Iterator[ReplayRequest]:
        """Return the requests among all records of one object, in order.

        A record with `selected` false only contributes history.
        """
        return self._each(records, self._requests_of, self._unusable_request)

    def writes(self, records: Sequence[RequestRecord]) -> Iterator[Write]:
        """Return the creations, updates and patches among the requests, each with the object of its client."""
        return self._each(records, self._writes_of, self._unusable_write)

    def steps(self, records: Sequence[RequestRecord], *, checked: bool = False) -> Iterator[RebuildStep]:
        """Yield every record of an object, in order, with the history of all; `checked` checks all bodies first."""
        about = ObjectHistory(records, self.cluster.discovery, self._olds)
        if checked:
            about.check()
        for exchange in about.exchanges:
            yield RebuildStep(exchange, about)

    def of_step(self, step: RebuildStep) -> ReplayRequest:
        """Return the request of a step, rebuilt on demand."""
        return self._request(step.exchange, step.old_objects)

    def on_another(self, exchange: Exchange, rebuilt: Rebuilt) -> ReplayRequest:
        """Return a request on an object that differs from the log's. It reaches the policies."""
        lister = self.cluster.at(exchange.record)
        return self._with_attributes(exchange, rebuilt, lister, RequestProgress(Reached.VALIDATION))

    def _each(
        self,
        records: Sequence[RequestRecord],
        make: Callable[[Exchange, OldObjects], Sequence[R]],
        set_aside: Callable[[Exchange], R],
    ) -> Iterator[R]:
        """Yield the results of `make` for each selected record and its object's history.

        If a body is not of the expected form, all bodies of the object are checked, and the unusable ones count as not
        recorded. `set_aside` makes the result of a record whose bodies are unusable then.
        """
        history = ObjectHistory(records, self.cluster.discovery, self._olds)
        for index, record in enumerate(records):
            if not getattr(record, "selected", True):
                continue
            # Most objects are only created, so the history is computed only for requests that need it.
            finds_nothing = record.verb in ("create", "deletecollection")
            try:
                results = make(history.exchanges[index], NO_HISTORY if finds_nothing else history.old_objects)
            # Almost all bodies are usable, so they are checked only after a failure.
            except (UnusableBodyError, *UNFORESEEN):
                history.check()
                try:
                    results = make(history.exchanges[index], NO_HISTORY if finds_nothing else history.old_objects)
                except UNFORESEEN:
                    results = [set_aside(history.exchanges[index])]
            yield from results

    def _requests_of(self, exchange: Exchange, old_objects: OldObjects) -> Sequence[ReplayRequest]:
        if exchange.record.verb == "deletecollection":
            return list(self._collection(exchange))
        if exchange.record.response_kind == REVIEW:
            return [reviewed_request(exchange, _namespace_object(exchange.record, self.cluster.at(exchange.record)))]
        return [self._request(exchange, old_objects)]

    def _writes_of(self, exchange: Exchange, old_objects: OldObjects) -> Sequence[Write]:
        if exchange.record.verb not in ("create", "update", "patch"):
            return []
        old = _old_object(exchange, old_objects)
        request = self._request(exchange, old_objects)
        new = _new_object(exchange, old, self.cluster.schemas_of(exchange.record.workspace))
        return [Write(exchange, request, old, new)]

    def _unusable_write(self, exchange: Exchange) -> Write:
        nothing = Missing("", _unusable(exchange))
        return Write(exchange, self._unusable_request(exchange), nothing, nothing)

    def _unusable_request(self, exchange: Exchange) -> ReplayRequest:
        """Return a request with unusable bodies: only its record is known."""
        record = exchange.record
        operation = _OPERATIONS.get(record.verb, Operation.CONNECT if exchange.is_connect else Operation.UPDATE)
        nothing = Missing("", _unusable(exchange))
        old = NULL if operation is Operation.CREATE else nothing
        rebuilt = Rebuilt(operation, NULL if operation is Operation.DELETE else nothing, old, nothing)
        kind = GroupVersionKind(exchange.resource.group, exchange.resource.version, "")
        attributes = Attributes(
            operation=operation,
            kind=exchange.kind or kind,
            resource=exchange.resource,
            subresource=record.subresource,
            namespace=exchange.namespace,
            name=record.name,
            user_info=exchange.user,
            workspace=record.workspace,
            dry_run=False,
            options=Missing("request.options", nothing.reason),
            object=attribute(rebuilt.object, "object"),
            old_object=attribute(rebuilt.old_object, "oldObject"),
            namespace_object=attribute(_namespace_object(record, self.cluster.at(record)), "namespaceObject"),
            missing=missing_of(exchange),
        )
        basis = dict.fromkeys(("object", "oldObject", "namespaceObject"), Basis.MISSING)
        how_far = progress(exchange) or RequestProgress(Reached.VALIDATION)
        return ReplayRequest(record, attributes, nothing, basis, how_far.reached, how_far.reason)

    def _olds(self, exchanges: Sequence[Exchange]) -> OldObjects:
        """Return the history of the object, which may begin with the snapshot."""
        first = exchanges[0].record
        # A single record may lack the kind, or the name that was generated.
        kind = next(filter(None, [each.parent_kind for each in exchanges]), None)
        name = next(filter(None, [each.record.name for each in exchanges]), "")
        # The log gives a request for a Namespace its own name as namespace.
        namespace = "" if first.resource == "namespaces" else first.namespace
        first_state = (
            self.cluster.in_workspace(first.workspace).snapshot_object(kind.group, kind.kind, namespace, name)
            if kind
            else None
        )
        trusted = self.trust.is_trusted(GroupResource(first.api_group, first.resource))
        collected = self.cluster.deletions.effects_on(object_ref(first, name))
        history = History(exchanges, first_state, self.cluster.clock, trusted=trusted, collected=collected)
        return OldObjects(history, trusted=trusted, mutated=self._may_be_mutated)

    def _may_be_mutated(self, exchange: Exchange) -> bool:
        """Return whether a mutating policy or webhook of the time may have changed the object of an update."""
        return is_changed_by_webhook(exchange) or self.mutators(exchange, Operation.UPDATE)

    def _request(self, exchange: Exchange, old_objects: OldObjects) -> ReplayRequest:
        record = exchange.record
        lister = self.cluster.at(record)
        mutation = self.mutation if isinstance(self.mutation, bool) else self.mutation(exchange.record)
        around = RebuildContext(
            old_objects=old_objects,
            lister=lister,
            cluster=self.cluster,
            workspace=record.workspace,
            classes=self.classes,
            mutators=self.mutators,
            mutation=mutation,
        )
        how_far = progress_of(exchange, old_objects, self.plugins)
        requests = []
        for operation in operations_of(exchange, old_objects.history, self.cluster.is_new_in_log):
            rebuilt = rebuild(exchange, around, operation)
            if record.workspace:
                rebuilt = as_sent_to_shard(exchange, rebuilt, self.cluster)
            requests.append(self._with_attributes(exchange, rebuilt, lister, how_far))
        request, *others = requests
        for other in others:
            request.alternative = other.before_mutation, other.attributes
        return request

    def _collection(self, exchange: Exchange) -> Iterator[ReplayRequest]:
        """Yield the deletions of a `deletecollection`: one for each object that the response lists."""
        lister = self.cluster.at(exchange.record)
        logged = progress(exchange) or RequestProgress(Reached.UNKNOWN, f"it failed with {exchange.record.code}")
        for number, item in enumerate(deleted_items(exchange)):
            pending = isinstance(item, Known) and is_pending(item.value, exchange.request.json)
            how_far = (
                RequestProgress(Reached.FAILED_BEFORE, "the object was already being deleted") if pending else logged
            )
            if isinstance(item, Missing) and exchange.succeeded:
                how_far = RequestProgress(
                    Reached.UNKNOWN, "the log does not list the deleted objects, and if there were none, no policy ran"
                )
            request = self._with_attributes(exchange, Rebuilt(Operation.DELETE, NULL, item, NULL), lister, how_far)
            request.item = number
            yield request

    def _with_attributes(
        self, exchange: Exchange, rebuilt: Rebuilt, lister: ClusterLister, how_far: RequestProgress
    ) -> ReplayRequest:
        """Return the request with the attributes of both phases, from the rebuilt objects."""
        record = exchange.record
        namespace = _namespace_object(record, lister)
        states = {"object": rebuilt.object, "oldObject": rebuilt.old_object, "namespaceObject": namespace}
        (object_, old_object, namespace_object), basis = shown(states)
        name = record.name or generated_name(exchange, rebuilt)
        missing = () if exchange.kind and exchange.has_query else missing_of(exchange)
        attributes = Attributes(
            operation=rebuilt.operation,
            kind=exchange.kind or GroupVersionKind(exchange.resource.group, exchange.resource.version, ""),
            resource=exchange.resource,
            subresource=record.subresource,
            namespace=exchange.namespace,
            name=name,
            user_info=exchange.user,
            workspace=record.workspace,
            dry_run=exchange.dry_run,
            options=options_of(exchange, rebuilt),
            object=self._named(object_, exchange) if isinstance(object_, Missing) else object_,
            old_object=self._named(old_object, exchange) if isinstance(old_object, Missing) else old_object,
            namespace_object=namespace_object,
            missing=missing if name else (*missing_name(exchange), *missing),
        )
        original: Attributes | Missing = NOT_ASKED
        if rebuilt.before_mutation is not NOT_ASKED:
            before = attribute(rebuilt.before_mutation, "object")
            original = replace(
                attributes,
                # A name that is to be generated does not exist yet.
                name=record.name if record.verb == "create" else name,
                object=self._named(before, exchange) if isinstance(before, Missing) else before,
                missing=missing,
            )
        notes = () if exchange.kind else (NO_KIND,)
        return ReplayRequest(record, attributes, original, basis, how_far.reached, how_far.reason, notes=notes)

    def _named(self, missing: Missing, exchange: Exchange) -> PartialObject | Missing:
        """Return an object without a body. At least its name is known, unless it is of a kind of its own."""
        kind, record = exchange.kind, exchange.record
        if kind is None or record.subresource in _NAMED_IN_URL_ALONE:
            return missing
        return self._skeletons.partial_object(missing, kind, record)


def _unusable(exchange: Exchange) -> str:
    """Return why a request cannot be used."""
    fault = exchange.request.fault or exchange.response.fault
    return fault or "a body of this or an earlier request does not match the schema of its kind"


_OPERATIONS = {"create": Operation.CREATE, "delete": Operation.DELETE, "deletecollection": Operation.DELETE}

_NAMED_IN_URL_ALONE = frozenset({"token", *CONNECT_SUBRESOURCES})
"""Subresources whose object need not have the name of its parent."""


def _old_object(exchange: Exchange, old_objects: OldObjects) -> Known | Missing:
    """Return the old object of a write, null if the write created it.

    It is the last state of the history if that has no gaps. The response is no evidence here: mutators may have changed
    what the client did not touch.
    """
    if exchange.record.verb == "create" or exchange.record.code == CREATED:
        return NULL
    last = old_objects.last(exchange)
    return (
        last
        if old_objects.trusted and isinstance(last, Known) and last.value is not None
        else old_objects.old_object(exchange)
    )


def _new_object(exchange: Exchange, old: Known | Missing, schemas: Schemas) -> Known | Missing:
    """Return the object of a write before any mutator."""
    if exchange.record.verb != "patch":
        return sent_object(exchange, creating=exchange.record.verb == "create")
    # Only an apply creates an object by PATCH. Its body is that object.
    if exchange.record.code == CREATED and exchange.request.json is not None:
        return Known(exchange.request.json, Basis.RECORDED)
    return patched(exchange, old, schemas)


def _namespace_object(record: RequestRecord, lister: ClusterLister) -> Known | Missing:
    """Return the namespace of a request, null for cluster-scoped resources and for namespaces themselves."""
    if not record.namespace or record.resource == "namespaces":
        return NULL
    namespace = lister.known(NAMESPACE, "", record.namespace)
    if namespace is None:
        return Missing(
            "",
            f"neither the snapshot nor the log has Namespace `{record.namespace}`",
            "give a snapshot of the cluster (--cluster)",
        )
    return namespace


MOST_TRUSTED = 4_000_000
"""Largest error in microseconds for which histories are trusted: they are read with five more seconds of writes."""
_MARGIN = 20_000


def clock_error(apart: int) -> int:
    """Return the error to allow for clocks that differ by at least `apart` microseconds.

    How much more they differ depends on the load.
    """
    return 2 * apart + _MARGIN if apart > 0 else 0


def widened(record: RequestRecord, error: int) -> RequestRecord:
    """Return a record with its interval widened by a clock error."""
    return record._replace(received=record.received - error, stage_time=record.stage_time + error) if error else record


def widened_samples(samples: Iterable[tuple[int, int, int]], error: int) -> tuple[tuple[int, int, int], ...]:
    """Return samples of a `RevisionClock` widened by a clock error."""
    return tuple(
        (revision, start if start == BEFORE else start - error, end + error) for revision, start, end in samples
    )


class TolerantReconstructor(Reconstructor, frozen=True):
    """Rebuilds requests as if each had run somewhere within its widened interval. Records keep their own times."""

    error: int = 0

    def requests(self, records: Sequence[RequestRecord]) -> Iterator[ReplayRequest]:
        """See `Reconstructor.requests`."""
        wider = [widened(record, self.error) for record in records]
        own = IdentityMap(zip(wider, records, strict=True))
        for request in super().requests(wider):
            request.record = own[request.record]
            if (
                request.reached is Reached.FAILED_BEFORE
                and request.record.verb == "delete"
                and request.record.code == 200
            ):
                # Of several deletions with the same version in the response, policies ran only for the first. The order
                # is unknown here.
                request.reached = Reached.UNKNOWN
                request.reached_reason = (
                    "two deletions have the same response, and the clocks do not show which came first"
                )
            yield request
