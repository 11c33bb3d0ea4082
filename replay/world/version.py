"""Versions that a client makes a condition: `resourceVersion` and `uid` of a body or of a deletion's preconditions.

A client names the version that it read. Under the candidate it would have read the object that exists there. So a
version of the log stands for the write that stored it. A request conflicts if a later write happened there too
(`registry.Store.Update`, `storage.Preconditions.Check`).
"""

from __future__ import annotations

from msgspec import Struct

from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import sent_revision
from replay.reconstruct.record.body import revision_of
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import get
from replay.world.result import CONFLICT


class WorldVersion(Struct):
    """Version of an object under the candidate: the sequence number of its last write, and its UID.

    `uid` is the log's UID if the same request created the object, empty if another one did, None if it was created
    before the log.
    """

    written: int = -1
    uid: str | None = None

    def write(self, seq: int, created_uid: str | None) -> None:
        """Record a write under the candidate.

        `created_uid` is the log's UID of a creation, empty if the log has none, None for other writes.
        """
        self.written = seq
        if created_uid is not None:
            self.uid = created_uid

    def fits(self, exchange: Exchange, history: History) -> bool | None:
        """Return whether a request names this version, or None if it names none, or one that the log does not know."""
        uid, named = named_uid(exchange), named_revision(exchange)
        if uid and not self._is(uid, history):
            return False
        if named is None:
            return True if uid else None
        place = history.index_at_revision(named)
        if place is None:  # the version is from before the log, if it exists at all
            return False if self.written >= 0 or exchange.record.code == CONFLICT.code else None
        origin = history.effects[place].exchange
        return origin is not None and self.written <= origin.record.seq

    def _is(self, uid: str, history: History) -> bool:
        if self.uid is not None:
            return uid == self.uid
        # The object is from before the log. Its UID is one of those that the log shows, if it shows any.
        shown = {effect.uid for effect in history.effects}
        return uid in shown or not any(shown)


def named_uid(exchange: Exchange) -> str:
    """Return the UID that a request requires, empty if none. The UID in a patch is a change, not a condition."""
    if exchange.record.verb == "patch":
        return ""
    body = exchange.request.json
    return get(body, (*_PRECONDITIONS.get(_kind(exchange), ("metadata",)), "uid")) or ""


def named_revision(exchange: Exchange) -> int | None:
    """Return the resourceVersion that a request requires, None if none."""
    preconditions = _PRECONDITIONS.get(_kind(exchange))
    if preconditions is None:
        return sent_revision(exchange)
    named = get(exchange.request.json, (*preconditions, "resourceVersion"))
    return revision_of(named) if isinstance(named, str) else None


def _kind(exchange: Exchange) -> str:
    return exchange.record.subresource if exchange.record.verb == "create" else exchange.record.verb


_PRECONDITIONS = {"delete": ("preconditions",), "eviction": ("deleteOptions", "preconditions")}
"""Path of a deletion's preconditions in its options (`metav1.Preconditions`). An eviction has them in its body."""
