"""Whether a request came as far as the validating policies, where that depends on the state that it found."""

from __future__ import annotations

from replay.reconstruct.collection import is_pending
from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import OldObjects, deletion_began_before, sent_revision
from replay.reconstruct.reached import Progress, progress
from replay.reconstruct.record.body import Shape, revision
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known
from replay.reconstruct.request import Reached

_BEFORE = Reached.FAILED_BEFORE


def progress_of(exchange: Exchange, olds: OldObjects) -> Progress:
    """How far a request came."""
    told = progress(exchange)
    if told is not None:
        return _deleting_already(exchange, olds) or told
    record = exchange.record
    if record.code == 404:
        return _not_found(exchange, olds.history)
    if record.code == 409:
        return _conflicted(exchange, olds.history)
    if record.code == 422:
        if _is_contended(exchange, olds.history):
            return Progress(Reached.UNKNOWN, "it was invalid, perhaps only when it was tried again after a conflict")
        return Progress(_BEFORE, "the object was invalid")
    return Progress(Reached.UNKNOWN, f"it failed with {record.code}, and the log does not tell where")


def _deleting_already(exchange: Exchange, olds: OldObjects) -> Progress | None:
    """A deletion of a pod whose graceful deletion is under way changes nothing and asks nobody (`Store.Delete`)."""
    if exchange.record.verb != "delete" or not exchange.succeeded or exchange.shape is not Shape.OBJECT:
        return None
    if not is_pending(exchange.response.json, exchange.request.json):
        return None
    stored = revision(exchange.response.metadata)
    known = stored is not None and olds.history.index_of(exchange) is None
    if known or deletion_began_before(exchange.response.metadata, exchange.record.received):
        return Progress(_BEFORE, "its graceful deletion was under way, so that nothing was asked")
    if not olds.trusted:
        return Progress(Reached.UNKNOWN, "its graceful deletion may have been under way")
    return None


def _not_found(exchange: Exchange, history: History) -> Progress:
    """An object that was gone before is not found before admission; one that goes meanwhile, after it."""
    found = history.at(exchange.record.received, exchange.record.stage_time)
    if found is None or (isinstance(found, Known) and found.value is None):
        return Progress(_BEFORE, "the object did not exist")
    return Progress(Reached.UNKNOWN, "the object was deleted at the same time")


def _conflicted(exchange: Exchange, history: History) -> Progress:
    """An update of another version than the stored one is refused before admission; one that is overtaken, after it."""
    record = exchange.record
    if record.verb == "delete":
        if "in the precondition (" in record.status_message:
            return Progress(_BEFORE, "its precondition failed")
        return Progress(Reached.UNKNOWN, "the object was changed at the same time")
    named = sent_revision(exchange)
    if named is None:
        return Progress(Reached.VALIDATION, "it named no version, and was overtaken only when it was stored")
    place = history.index_at_revision(named)
    newer = [effect for effect in history.effects if effect.revision is not None and effect.revision > named]
    if place is not None and any(effect.end < record.received for effect in newer):
        return Progress(_BEFORE, "the object had been changed before")
    return Progress(Reached.UNKNOWN, "the object was changed at the same time")


def _is_contended(exchange: Exchange, history: History) -> bool:
    """Whether the object was written while the request ran."""
    return len(history.window(exchange.record.received, exchange.record.stage_time)) > 1
