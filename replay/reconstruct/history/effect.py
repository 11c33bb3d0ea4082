"""The effect of one write: the state of the object or its deletion, and the time.

Most effects are read only for their order. So a body is decoded only if its first bytes and the ingested columns do not
show enough.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from replay.audit.format.admission_review import REVIEW
from replay.go.format import parse_uint
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.reconstruct.record.body import BodyShape, revision
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known

BAD_REQUEST = 400
SERVER_FAILED = 500
WRITES = frozenset({"create", "update", "patch", "delete"})
NO_WRITE = frozenset({"token", "log", "exec", "attach", "portforward", "proxy"})
_DELETED = '"deletionTimestamp"'
VERSION_NAMED = "resourceVersion should not be set on objects to be created"
"""Text of `storage.ErrResourceVersionSetOnCreate`."""
UNRESOLVED = "unsupported role reference kind: "
"""Text of RBAC's escalation check for a binding without a role (`pkg/registry/rbac/validation`)."""
UNTYPED = "failed to create typed patch object ("
"""Text for an apply that does not fit the schema of its kind, before admission (`structuredMergeManager.Apply`)."""
_NOT_STORED = (UNTYPED, VERSION_NAMED, UNRESOLVED)
"""Errors without a status of their own, answered with 500 before anything is stored."""
_SUCCESS = "Success"
"""Text of a `Status` that is the answer itself.

If the answer is an object, the event has only the code (`audit.LogResponseObject`).
"""


class EffectKind(Enum):
    """Kind of effect that a write has."""

    STATE = "state"
    GONE = "gone"
    COLLECTED = "collected"
    """A collection deletion may have deleted the object, and it may still be going away."""
    BINDING = "binding"
    EVICTION = "eviction"
    SCALE = "scale"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


class Effect(Struct):
    """One write. `revision` is None and `uid` empty if the log does not tell them.

    `start` and `end` (microseconds) enclose the time of the write. `is_shown` says that the response holds the object
    after it. `snapshot` is the object of a snapshot, which takes the place of a response.
    """

    kind: EffectKind
    start: int
    end: int
    exchange: Exchange | None
    revision: int | None = None
    uid: str = ""
    is_shown: bool = False
    snapshot: JSON = None
    after: Known | Missing | None = None

    @property
    def state(self) -> JSON:
        """The object after the write, None if neither response nor snapshot holds it."""
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
        """Return whether the write may have removed the object."""
        if self.kind in (EffectKind.GONE, EffectKind.EVICTION, EffectKind.COLLECTED):
            return True
        return self.kind is EffectKind.UNKNOWN and self.is_deletion


def effect_of(exchange: Exchange) -> Effect | None:
    """Return what a record did to its object, or None for reads, refusals, dry runs and requests that write nothing.

    A request that failed within the server (a timeout) may have been stored, unless its error comes before storage. A
    request without a recorded response may have been stored too.
    """
    record = exchange.record
    if exchange.dry_run or record.subresource in NO_WRITE or record.verb not in WRITES:
        return None
    effect = Effect(EffectKind.UNKNOWN, record.received, record.stage_time, exchange)
    if record.response_kind == REVIEW:
        return _reviewed(exchange, effect)
    if not exchange.succeeded:
        may_be_stored = record.code >= SERVER_FAILED and not record.status_message.startswith(_NOT_STORED)
        # Without a code, the log lacks the response, so the write may have been stored.
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
    """Return the revision of a response that is the object itself and is not being deleted.

    The response is not decoded for this.
    """
    record, text = exchange.record, exchange.record.response_object
    stored = parse_uint(record.response_resource_version, bits=63)
    # The substring may also be inside a string. Then the body is decoded, which is slower but never wrong.
    if not stored or not record.response_uid or text is None or _DELETED in text or not exchange.concerns_parent:
        return None
    return stored if exchange.shape is BodyShape.OBJECT else None


def _stored(exchange: Exchange, effect: Effect) -> None:
    """Complete the effect of an update or creation.

    An object that was being deleted goes away with the write that removes its last finalizer
    (`Store.deleteWithoutFinalizers`).
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
    """Complete the effect of a deletion.

    The answer is the object if it stays for a while; if it is gone, the object or a Status.
    """
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
        # `Store.finalizeDelete` names the UID of the removed object in the Status.
        effect.uid = str((details or {}).get("uid") or effect.uid)
    return effect


def is_gone(exchange: Exchange | None, metadata: dict[str, JSON], body: JSON) -> bool:
    """Return whether the object of an answer no longer exists.

    It was deleted, and neither finalizers nor a grace period are left.
    """
    if metadata.get("finalizers") or (metadata.get("deletionGracePeriodSeconds") or 0) > 0:
        return False
    # A namespace also waits for `spec.finalizers`, which the namespace controller removes.
    if exchange is not None and exchange.record.resource == "namespaces":
        spec = body.get("spec") if isinstance(body, dict) else None
        return bool(metadata.get("deletionTimestamp")) and not (spec or {}).get("finalizers")
    if metadata.get("deletionTimestamp"):
        return True
    return exchange is not None and exchange.record.verb == "delete"
