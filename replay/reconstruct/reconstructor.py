"""From the records of an object to requests as admission saw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from replay.audit.event import RequestRecord
from replay.kube.attributes import JSON, Attributes, Missing, Operation
from replay.kube.gvk import GroupResource, GroupVersionKind
from replay.reconstruct.before import Mutators
from replay.reconstruct.cluster import NAMESPACE, Cluster, ClusterLister
from replay.reconstruct.collection import deleted_items, is_pending
from replay.reconstruct.exchange import Exchange
from replay.reconstruct.history import History
from replay.reconstruct.known import Known, attribute, basis_of, get
from replay.reconstruct.old_object import RECORD_RESPONSES, OldObjects
from replay.reconstruct.options import delete_options, write_options
from replay.reconstruct.progress import progress_of
from replay.reconstruct.reached import Progress, progress
from replay.reconstruct.rebuild import NULL, Rebuilt, Surroundings, rebuild
from replay.reconstruct.request import Reached, ReplayRequest
from replay.reconstruct.trust import Trust


@dataclass(frozen=True)
class Reconstructor:
    """Rebuilds the requests of a log.

    `cluster` is what is known of other objects, `trust` which histories have gaps, `mutators` what may have changed
    objects at the time.
    """

    cluster: Cluster
    trust: Trust = Trust()
    mutators: Mutators = Mutators.WEBHOOKS

    def requests(self, records: Sequence[RequestRecord]) -> Iterator[ReplayRequest]:
        """The requests among all records of one object, in order; a record with `selected` false only tells history."""
        exchanges = [Exchange(record, self.cluster.discovery) for record in records]
        written = [exchange for exchange in exchanges if exchange.record.verb != "deletecollection"]
        olds = self._olds(written) if written else None
        for exchange in exchanges:
            if not getattr(exchange.record, "selected", True):
                continue
            if olds is None or exchange.record.verb == "deletecollection":
                yield from self._collection(exchange)
            else:
                yield self._request(exchange, olds)

    def _olds(self, exchanges: Sequence[Exchange]) -> OldObjects:
        """The history of the object, which the snapshot may begin."""
        first = exchanges[0].record
        kind = next((of.parent_kind for of in exchanges if of.parent_kind is not None), None)
        name = first.name or str(exchanges[0].response.metadata.get("name") or "")
        namespace = "" if first.resource == "namespaces" else first.namespace
        known = self.cluster.snapshot_object(kind.group, kind.kind, namespace, name) if kind else None
        trusted = self.trust.holds(GroupResource(first.api_group, first.resource))
        return OldObjects(History(exchanges, known, self.cluster.clock, trusted=trusted), trusted=trusted)

    def _request(self, exchange: Exchange, olds: OldObjects) -> ReplayRequest:
        lister = self.cluster.at(exchange.record)
        rebuilt = rebuild(exchange, Surroundings(olds, lister, self.cluster.discovery, self.mutators))
        return _made(exchange, rebuilt, lister, progress_of(exchange, olds))

    def _collection(self, exchange: Exchange) -> Iterator[ReplayRequest]:
        """A `deletecollection`: one deletion for each object that the response lists."""
        lister = self.cluster.at(exchange.record)
        told = progress(exchange) or Progress(Reached.UNKNOWN, f"it failed with {exchange.record.code}")
        for number, item in enumerate(deleted_items(exchange)):
            pending = isinstance(item, Known) and is_pending(item.value, exchange.request.json)
            how_far = Progress(Reached.FAILED_BEFORE, "its graceful deletion was under way") if pending else told
            request = _made(exchange, Rebuilt(Operation.DELETE, NULL, item, NULL), lister, how_far)
            request.item = number
            yield request


def _made(exchange: Exchange, rebuilt: Rebuilt, lister: ClusterLister, how_far: Progress) -> ReplayRequest:
    """The attributes of both phases around the rebuilt objects."""
    record = exchange.record
    kind = exchange.kind
    namespace = _namespace(record)
    namespace_object = _namespace_object(record, lister)
    attributes = Attributes(
        operation=rebuilt.operation,
        kind=kind or GroupVersionKind(exchange.resource.group, exchange.resource.version, ""),
        resource=exchange.resource,
        subresource=record.subresource,
        namespace=namespace,
        name=_name(exchange, rebuilt),
        user_info=record.user,
        dry_run=exchange.dry_run,
        options=_options(exchange, rebuilt),
        object=attribute(rebuilt.object, "object"),
        old_object=attribute(rebuilt.old_object, "oldObject"),
        namespace_object=attribute(namespace_object, "namespaceObject"),
        missing=_missing_name(exchange, rebuilt),
    )
    basis = {
        "object": basis_of(rebuilt.object),
        "oldObject": basis_of(rebuilt.old_object),
        "namespaceObject": basis_of(namespace_object),
    }
    notes = () if kind else ("the kind of the resource is not known: give a snapshot with its CustomResourceDefinition",)
    before = _before(attributes, rebuilt, record)
    return ReplayRequest(record, attributes, before, basis, how_far.reached, how_far.reason, notes=notes)


def _before(attributes: Attributes, rebuilt: Rebuilt, record: RequestRecord) -> Attributes:
    """The attributes of the mutating phase: the object before mutation, and no name where one is to be generated."""
    name = record.name if rebuilt.operation is Operation.CREATE and record.verb == "create" else attributes.name
    return replace(attributes, object=attribute(rebuilt.before_mutation, "object"), name=name, missing=())


def _namespace(record: RequestRecord) -> str:
    """The namespace of the attributes; a Namespace is its own (`request.RequestInfoFactory`, `createHandler`)."""
    return record.name or record.namespace if record.resource == "namespaces" and not record.api_group else record.namespace


def _name(exchange: Exchange, rebuilt: Rebuilt) -> str:
    """The name in the validating phase, which a generated one has by then; a collection's deletions have none."""
    if exchange.record.name or exchange.record.verb != "create":
        return exchange.record.name
    if isinstance(rebuilt.object, Missing):
        name = exchange.response.metadata.get("name")
    else:
        name = get(rebuilt.object.value, ("metadata", "name"))
    return name if isinstance(name, str) else ""


def _options(exchange: Exchange, rebuilt: Rebuilt) -> JSON | Missing | None:
    """The operation's options; a connection has none."""
    if rebuilt.operation is Operation.CONNECT:
        return None
    if rebuilt.operation is Operation.DELETE:
        options = delete_options(exchange)
        if isinstance(options, Missing):
            return options
        options = _with_grace_period(exchange, options, rebuilt.old_object)
        return options if isinstance(options, Missing) else _with_precondition(exchange, options, rebuilt.old_object)
    return write_options(exchange, rebuilt.operation)


def _with_precondition(exchange: Exchange, options: JSON, old: Known | Missing) -> JSON | Missing:
    """The namespace store makes the uid that it found a precondition (`pkg/registry/core/namespace/storage.REST.Delete`)."""
    if exchange.record.resource != "namespaces" or get(options, ("preconditions", "uid")):
        return options
    uid = None if isinstance(old, Missing) else get(old.value, ("metadata", "uid"))
    if not isinstance(uid, str):
        return Missing("request.options", "the uid of the deleted namespace is not known")
    return {**options, "preconditions": {**(options.get("preconditions") or {}), "uid": uid}}


def _with_grace_period(exchange: Exchange, options: JSON, old: Known | Missing) -> JSON | Missing:
    """The pod strategy writes the grace period that it settles on into the options (`podStrategy.CheckGracefulDelete`)."""
    record = exchange.record
    if record.resource != "pods" or record.api_group:
        return options
    period = exchange.response.metadata.get("deletionGracePeriodSeconds")
    if not (exchange.succeeded and record.verb == "delete" and isinstance(period, int)):
        period = _grace_period(options, old)
    if period is None:
        return Missing("request.options", "the grace period depends on the pod, which is not known")
    return {**options, "gracePeriodSeconds": period}


def _grace_period(options: JSON, old: Known | Missing) -> int | None:
    """The grace period for a pod; None where it is not known. Zero needs no pod to stay zero."""
    asked = options.get("gracePeriodSeconds")
    if asked == 0:
        return 0
    if isinstance(old, Missing) or old.value is None or any(hole.path[0] in ("spec", "status") for hole in old.holes):
        return None
    if not get(old.value, ("spec", "nodeName")) or get(old.value, ("status", "phase")) in ("Failed", "Succeeded"):
        return 0
    period = asked if isinstance(asked, int) else get(old.value, ("spec", "terminationGracePeriodSeconds")) or 0
    return 1 if period < 0 else int(period)


def _missing_name(exchange: Exchange, rebuilt: Rebuilt) -> tuple[Missing, ...]:
    """Where a name was generated that the log does not hold."""
    if exchange.record.verb != "create" or _name(exchange, rebuilt):
        return ()
    return (Missing("request.name", "the name was generated, and the response is not recorded", RECORD_RESPONSES),)


def _namespace_object(record: RequestRecord, lister: ClusterLister) -> Known | Missing:
    """The namespace of a request; null for cluster-scoped resources and for namespaces themselves."""
    if not record.namespace or record.resource == "namespaces":
        return NULL
    found = lister.known(NAMESPACE, "", record.namespace)
    if found is None:
        return Missing("", f"Namespace `{record.namespace}` is in neither snapshot nor log", "give a snapshot (--cluster)")
    return found
