"""What one write left behind: a state of the object, or its end, and when.

Most effects of a history are never looked at but for their order. So a body is decoded only where its first bytes and the
columns that ingest read do not tell as much.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from replay.audit.format.admission_review import REVIEW
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.reconstruct.record.body import BodyShape, revision, revision_of
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known

BAD_REQUEST = 400
SERVER_FAILED = 500
WRITES = frozenset({"create", "update", "patch", "delete"})
NO_WRITE = frozenset({"token", "log", "exec", "attach", "portforward", "proxy"})
_DELETED = '"deletionTimestamp"'
VERSION_NAMED = "resourceVersion should not be set on objects to be created"
"""`storage.ErrResourceVersionSetOnCreate`."""
UNRESOLVED = "unsupported role reference kind: "
"""RBAC's escalation check of a binding without a role (`pkg/registry/rbac/validation`)."""
_NOT_STORED = ("failed to create typed patch object (", VERSION_NAMED, UNRESOLVED)
"""Errors without a status of their own, answered with 500. The first is an apply that fits no schema."""
_SUCCESS = "Success"
"""Text of a `Status` that is the answer itself.

For an object, the event has only the code (`audit.LogResponseObject`).
"""


class EffectKind(Enum):
    """Effect of a write."""

    STATE = "state"
    GONE = "gone"
    COLLECTED = "collected"
    """It may have been deleted as one of a collection, and may still be going away."""
    BINDING = "binding"
    EVICTION = "eviction"
    SCALE = "scale"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Effect:
    """One write; `revision` and `uid` are None and empty where the log does not tell them.

    `start` and `end` (microseconds) enclose the instant of the write. `is_shown` tells whether the response holds the object
    after it; `snapshot` is the object of a snapshot, which stands for that response.
    """

    kind: EffectKind
    start: int
    end: int
    exchange: Exchange | None
    revision: int | None = None
    uid: str = ""
    is_shown: bool = False
    snapshot: JSON = None
    after: Known | Missing | None = field(default=None, repr=False)

    @property
    def state(self) -> JSON:
        """The object after the write, None where neither response nor snapshot holds it."""
        if self.snapshot is not None:
            return self.snapshot
        return self.exchange.response.json if self.is_shown and self.exchange is not None else None

    @property
    def is_deletion(self) -> bool:
        """Return whether a deletion was requested."""
        return self.kind is EffectKind.COLLECTED or (
            self.exchange is not None and self.exchange.record.verb == "delete"
        )

    @property
    def may_have_removed(self) -> bool:
        """Whether the object may not have existed after it."""
        if self.kind in (EffectKind.GONE, EffectKind.EVICTION, EffectKind.COLLECTED):
            return True
        return self.kind is EffectKind.UNKNOWN and self.is_deletion


def effect_of(exchange: Exchange) -> Effect | None:
    """What a record did to its object; None for reads, refusals, dry runs and requests that write nothing.

    A request that failed within the server (a timeout) may have been stored, but for what it says before it stores; so may one whose
    response is not recorded.
    """
    record = exchange.record
    if exchange.dry_run or record.subresource in NO_WRITE or record.verb not in WRITES:
        return None
    effect = Effect(EffectKind.UNKNOWN, record.received, record.stage_time, exchange)
    if record.response_kind == REVIEW:
        return _reviewed(exchange, effect)
    if not exchange.succeeded:
        may_be_stored = record.code >= SERVER_FAILED and not record.status_message.startswith(_NOT_STORED)
        return effect if record.code == 0 or may_be_stored else None
    if record.verb == "delete":
        return _deletion(exchange, effect)
    effect.revision = _plain_revision(exchange)
    if effect.revision is not None:
        effect.kind, effect.is_shown, effect.uid = EffectKind.STATE, True, record.response_uid
        return effect
    effect.uid = str(exchange.response.metadata.get("uid") or record.object_uid)
    if record.subresource == "binding":
        effect.kind = EffectKind.BINDING
    elif record.subresource == "scale":
        effect.kind = EffectKind.SCALE if exchange.shape is BodyShape.OBJECT else EffectKind.UNKNOWN
        effect.revision = revision(exchange.response.metadata)
    elif record.subresource == "eviction":
        effect.kind = EffectKind.EVICTION
    else:
        _stored(exchange, effect)
    return effect


def _reviewed(exchange: Exchange, effect: Effect) -> Effect | None:
    """Return the effect of a request that a webhook reviewed and did not refuse: stored as in the last phase."""
    review = exchange.response.json
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict) or request.get("dryRun") or exchange.record.code >= BAD_REQUEST:
        return None
    obj = request.get("object")
    is_written = exchange.record.verb in ("create", "update") and not exchange.record.subresource
    if is_written and isinstance(obj, dict) and review.get("isValidated", True):
        effect.kind, effect.snapshot = EffectKind.STATE, obj
        effect.uid = str((obj.get("metadata") or {}).get("uid") or "")
    return effect


def _plain_revision(exchange: Exchange) -> int | None:
    """Return the revision of a response that is the object itself and is not being deleted; decided without decoding."""
    record, text = exchange.record, exchange.record.response_object
    stored = revision_of(record.response_resource_version)
    if stored is None or not record.response_uid or text is None or _DELETED in text or not exchange.concerns_parent:
        return None
    return stored if exchange.shape is BodyShape.OBJECT else None


def _stored(exchange: Exchange, effect: Effect) -> None:
    """An update or creation.

    An object without finalizers that was being deleted goes away with the write (`Store.deleteWithoutFinalizers`).
    """
    metadata = exchange.response.metadata
    effect.revision = revision(metadata)
    if exchange.shape is BodyShape.PARTIAL_METADATA:
        effect.kind = EffectKind.PARTIAL
    elif exchange.shape is BodyShape.OBJECT:
        effect.kind, effect.is_shown = EffectKind.STATE, True
    if effect.kind is not EffectKind.UNKNOWN and is_gone(effect.exchange, metadata, exchange.response.json):
        effect.kind = EffectKind.GONE


def _deletion(exchange: Exchange, effect: Effect) -> Effect:
    """A deletion answers with the object where it stays for a while, and with the object or a Status where it is gone."""
    metadata = exchange.response.metadata
    effect.uid = str(metadata.get("uid") or exchange.record.object_uid)
    if exchange.shape in (BodyShape.OBJECT, BodyShape.OTHER_VERSION, BodyShape.PARTIAL_METADATA):
        if is_gone(exchange, metadata, exchange.response.json):
            effect.kind, effect.revision = EffectKind.GONE, revision(metadata)
        elif exchange.shape is BodyShape.OBJECT:
            effect.kind, effect.is_shown, effect.revision = EffectKind.STATE, True, revision(metadata)
        else:
            effect.revision = revision(metadata)
    elif exchange.record.response_object is None and exchange.record.status == _SUCCESS:
        effect.kind = EffectKind.GONE
    elif exchange.shape is BodyShape.OTHER and isinstance(exchange.response.json, dict):
        effect.kind = EffectKind.GONE
        details = exchange.response.json.get("details")
        effect.uid = str((details or {}).get("uid") or effect.uid)
    return effect


def is_gone(exchange: Exchange | None, metadata: dict[str, JSON], body: JSON) -> bool:
    """Whether an answered object no longer exists: deleted, with neither finalizers nor grace period left."""
    if metadata.get("finalizers") or (metadata.get("deletionGracePeriodSeconds") or 0) > 0:
        return False
    if exchange is not None and exchange.record.resource == "namespaces":
        spec = body.get("spec") if isinstance(body, dict) else None
        return bool(metadata.get("deletionTimestamp")) and not (spec or {}).get("finalizers")
    if metadata.get("deletionTimestamp"):
        return True
    return exchange is not None and exchange.record.verb == "delete"
