"""`operation`, `object` and `oldObject` of the validating phase."""

from __future__ import annotations

from dataclasses import dataclass

from replay.kube.attributes import Basis, Missing, Operation
from replay.reconstruct.body import Shape
from replay.reconstruct.exchange import Exchange
from replay.reconstruct.history import History
from replay.reconstruct.known import Hole, Known, get
from replay.reconstruct.old_object import RECORD_RESPONSES, OldObjects, sent_revision
from replay.reconstruct.options import connect_object

NULL = Known(None, Basis.RECORDED)
_REVISION = ("metadata", "resourceVersion")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What admission was told about the object."""

    operation: Operation
    object: Known | Missing
    old_object: Known | Missing


def operation_of(exchange: Exchange, history: History) -> Operation:
    """The operation that admission sees: a patch or update of what does not exist is a CREATE."""
    record = exchange.record
    if exchange.is_connect:
        return Operation.CONNECT
    if record.verb == "create":
        return Operation.CREATE
    if record.verb in ("delete", "deletecollection"):
        return Operation.DELETE
    if exchange.succeeded:
        return Operation.CREATE if record.code == 201 else Operation.UPDATE
    before = history.at(record.received, record.stage_time)
    absent = isinstance(before, Known) and before.value is None
    return Operation.CREATE if absent else Operation.UPDATE


def rebuild(exchange: Exchange, olds: OldObjects) -> Rebuilt:
    """The objects of a request that reached the validating phase, as it ran last."""
    operation = operation_of(exchange, olds.history)
    if operation is Operation.CONNECT:
        return Rebuilt(operation, connect_object(exchange), NULL)
    if operation is Operation.CREATE:
        return Rebuilt(operation, _created(exchange), NULL)
    old = olds.of(exchange)
    if operation is Operation.DELETE:
        return Rebuilt(operation, NULL, old)
    return Rebuilt(operation, _updated(exchange, old), old)


def _created(exchange: Exchange) -> Known | Missing:
    """The object of a CREATE: the response, or for kinds that answer with a Status the body."""
    if exchange.succeeded and exchange.shape is Shape.OBJECT:
        return Known(exchange.response.json, Basis.RECORDED).without(_REVISION)
    return Missing("", "todo")


def _updated(exchange: Exchange, old: Known | Missing) -> Known | Missing:
    """The object of an UPDATE: the response, with the resourceVersion that it was to replace."""
    if exchange.succeeded and exchange.shape is Shape.OBJECT:
        found = Known(exchange.response.json, Basis.RECORDED)
        if not isinstance(old, Missing):
            at = get(old.value, _REVISION)
            hole = next((hole for hole in old.holes if hole.path == _REVISION), None)
            return found.with_value(_REVISION, at) if hole is None else found.with_holes([hole])
        named = sent_revision(exchange)
        if named is not None:
            return found.with_value(_REVISION, str(named))
        return found.with_holes([Hole(_REVISION, "the resourceVersion before the request is not known", RECORD_RESPONSES)])
    return Missing("", "todo")
