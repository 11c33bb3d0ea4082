"""Versions that clients make a condition: `resourceVersion` and `uid` of a body, or of the preconditions of a deletion.

A client names what it read. In another world it would have read what is there, so that a version of the log stands for the write that
stored it: a request conflicts where a later write took place in that world too (`registry.Store.Update`, `storage.Preconditions.Check`).
"""

from __future__ import annotations

from msgspec import Struct

from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import precondition, sent_revision
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import get


class WorldVersion(Struct):
    """The version of an object in the candidate's world: the number of the request that wrote it last, and the uid.

    `uid` is that of the log for the creation which took place in this world too, empty for another one, None for one before the log.
    """

    written: int = -1
    uid: str | None = None

    def write(self, seq: int, created_uid: str | None) -> None:
        """A write of this world; of a creation with the uid of the log, empty where the log has none."""
        self.written = seq
        if created_uid is not None:
            self.uid = created_uid

    def fits(self, exchange: Exchange, history: History) -> bool | None:
        """Whether a request names this version, None if it names none."""
        uid = get(exchange.request.json, ("preconditions", "uid")) or get(exchange.request.json, ("metadata", "uid"))
        if uid and self.uid is not None and uid != self.uid:
            return False
        is_deletion = exchange.record.verb == "delete"
        named = precondition(exchange) if is_deletion else sent_revision(exchange)
        if named is None:
            return True if uid else None
        place = history.index_at_revision(named)
        origin = history.effects[place].exchange if place is not None else None
        return origin is not None and self.written <= origin.record.seq
