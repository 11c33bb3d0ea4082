"""One rebuilt request: the attributes of the mutating and the validating phase, and the object as its client sent it.

The mutating phase gets the object in another form. The body in an audit event is decoded and defaulted already
(`audit.LogRequestObject` runs after the decoder). Three steps follow before the mutating phase: the request's namespace
is set, a creation's system fields are wiped (`rest.WipeObjectMetaSystemFields`), and `managedFields` is set, which the
response shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from replay.audit.answer import is_forbidden
from replay.audit.event import RequestRecord, annotations_from_json
from replay.json import JSON
from replay.kube.attributes import Attributes, Basis, Missing
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known


class Reached(StrEnum):
    """The point that a request reached, as far as the log shows it."""

    VALIDATION = "validation"
    FAILED_BEFORE = "failed_before"
    UNKNOWN = "unknown"


class ReplayRequest(Struct):
    """A request with its attributes and the basis of each.

    `attributes` are those of the validating phase at the time, including the effects of the mutators then.
    `before_mutation` are those with which a candidate's mutating policies would begin. Its `object` is `Missing` if the
    effects of the mutators cannot be undone. `basis` has the keys `object`, `oldObject` and `namespaceObject`. The
    basis is None for a part that the API defines as null. `reached_reason` says why the request did not reach
    validation, or why that is unknown. A `deletecollection` event gives one `ReplayRequest` per deleted object,
    numbered by `item`. `otherwise` are the attributes of both phases for a CREATE, if the log does not tell whether the
    object existed.
    """

    record: RequestRecord
    attributes: Attributes
    before_mutation: Attributes | Missing
    basis: Mapping[str, Basis | None]
    reached: Reached = Reached.VALIDATION
    reached_reason: str = ""
    item: int = 0
    notes: tuple[str, ...] = field(default=())
    alternative: tuple[Attributes | Missing, Attributes] | None = None

    @property
    def questions(self) -> list[tuple[Attributes | Missing, Attributes]]:
        """The attributes of both phases, for each operation that the request may have."""
        asked = (self.before_mutation, self.attributes)
        return [asked] if self.alternative is None else [asked, self.alternative]


RECORD_REQUESTS = "audit this resource at level Request or RequestResponse"
UNREAD_BODY = "the authorizers refused the request before the API server read its body"
_LEVELS_WITH_BODIES = frozenset({"Request", "RequestResponse"})
_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
_KEEPS_SYSTEM_FIELDS = frozenset({"binding"})
_MANAGED = ("metadata", "managedFields")


def sent_object(exchange: Exchange, *, creating: bool, created: JSON = None) -> Known | Missing:
    """Return the body of a POST or PUT as the mutating phase gets it.

    `created` replaces the body for an apply that creates.
    """
    body = exchange.request.json if created is None else created
    if not isinstance(body, dict):
        return _unrecorded(exchange)
    kind = exchange.kind
    if kind is None or body.get("kind") != kind.kind:
        return Missing("", "the request body has another kind than the resource")
    if body.get("apiVersion") != kind.api_version and exchange.request.shape(kind) is BodyShape.OTHER_VERSION:
        return Missing("", f"the request body has API version {body.get('apiVersion')}, which replay cannot convert")
    metadata = _request_metadata(exchange, body, creating=creating)
    holes: tuple[Hole, ...] = ()
    if exchange.shape is BodyShape.OBJECT and exchange.concerns_parent:
        # Field managers are set before the mutating phase and not changed after it: the response shows them.
        managed = exchange.response.metadata.get("managedFields")
        if managed is not None:
            metadata["managedFields"] = managed
    else:
        holes = (Hole(_MANAGED, "the log does not show managedFields for a request that stored nothing"),)
    return Known({**body, "metadata": metadata}, Basis.RECORDED if created is None else Basis.RECONSTRUCTED, holes)


def _unrecorded(exchange: Exchange) -> Missing:
    """Return why there is no usable body."""
    if exchange.request.fault:
        return Missing("", exchange.request.fault)
    if exchange.record.annotations and '"audit.k8s.io/truncated"' in exchange.record.annotations:
        return Missing(
            "", "the API server truncated the event because of its size", "raise --audit-log-truncate-max-event-size"
        )
    if is_forbidden(annotations_from_json(exchange.record.annotations)):
        return Missing("", UNREAD_BODY)
    if exchange.record.level in _LEVELS_WITH_BODIES:
        return Missing("", "the event has no request body")
    return Missing("", f"audit level {exchange.record.level} does not record bodies", RECORD_REQUESTS)


def _request_metadata(exchange: Exchange, body: dict[str, JSON], *, creating: bool) -> dict[str, JSON]:
    """Return the metadata of a body as the handler sets it, without `managedFields`.

    Only a POST has its system fields wiped before admission (`createHandler`). For a PUT or apply that creates, the
    store wipes them later.
    """
    metadata = dict(body.get("metadata") or {})
    record = exchange.record
    if creating and record.verb == "create" and record.subresource not in _KEEPS_SYSTEM_FIELDS:
        for name in _SYSTEM_FIELDS:
            metadata.pop(name, None)
    if record.namespace and record.resource != "namespaces" and not metadata.get("namespace"):
        metadata["namespace"] = record.namespace
    metadata.pop("managedFields", None)
    return metadata
