"""`operation`, `object` and `oldObject` of both phases."""

from __future__ import annotations

from typing import NamedTuple

from replay.json import JSON
from replay.kube.attributes import Basis, Missing, Operation
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.kube.schema import Schemas
from replay.reconstruct.history.old_object import RECORD_RESPONSES, OldObjects, sent_revision
from replay.reconstruct.mutation_input import (
    Mutators,
    before_applied,
    before_patched,
    is_changed_by_webhook,
    no_policies,
    patched,
)
from replay.reconstruct.patch.apply import created_by_apply
from replay.reconstruct.patch.body import UnappliedPatchError
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get
from replay.reconstruct.request_object import sent_object
from replay.reconstruct.server.builtin import after_builtin_mutators
from replay.reconstruct.server.default_class import DefaultClasses
from replay.reconstruct.server.options import connect_object
from replay.reconstruct.server.strategy import after_create, after_update, as_validated

NULL = Known(None, Basis.RECORDED)
NOT_ASKED = Missing("", "the object before mutation was not asked for")
_REVISION = ("metadata", "resourceVersion")
_AS_SENT = frozenset({"binding", "eviction"})
"""Subresources whose object goes through no strategy on its way to validation."""


class Rebuilt(NamedTuple):
    """What admission was told about the object: in the validating phase, and at the start of the mutating policies."""

    operation: Operation
    object: Known | Missing
    old_object: Known | Missing
    before_mutation: Known | Missing


class RebuildContext(NamedTuple):
    """What a request is rebuilt with, apart from its own record."""

    olds: OldObjects
    lister: Lister
    discovery: Discovery
    schemas: Schemas
    classes: DefaultClasses
    mutators: Mutators = no_policies
    mutation: bool = True
    """Whether anybody will ask for the object before mutation."""


def rebuild(exchange: Exchange, around: RebuildContext, operation: Operation) -> Rebuilt:
    """The objects of a request of an operation that reached the validating phase, as it ran last."""
    if operation is Operation.CONNECT:
        options = connect_object(exchange)
        return Rebuilt(operation, options, NULL, options)
    if operation is Operation.CREATE:
        return _created(exchange, around)
    old = around.olds.of(exchange)
    if operation is Operation.DELETE:
        return Rebuilt(operation, NULL, old, NULL)
    return _updated(exchange, old, around)


def _created(exchange: Exchange, around: RebuildContext) -> Rebuilt:
    """A CREATE: the response is the object; where it is not, the body as the plugins and the strategy leave it."""
    shown = exchange.succeeded and exchange.shape is BodyShape.OBJECT and exchange.record.subresource not in _AS_SENT
    if shown and not around.mutation:
        before: Known | Missing = NOT_ASKED
    elif exchange.record.verb == "patch":
        before = _applied(exchange, around)
    else:
        before = _sent(exchange, around, creating=True)
    if shown:
        stored = Known(exchange.response.json, Basis.RECORDED).without(_REVISION)
        validated: Known | Missing = as_validated(stored, exchange)
    elif isinstance(before, Missing) or exchange.record.subresource in _AS_SENT:
        validated = before
    else:
        validated = after_create(before, exchange, around.discovery.resource(exchange.resource))
        if exchange.succeeded and exchange.shape is BodyShape.PARTIAL_METADATA:
            validated = validated.with_value(("metadata",), exchange.response.metadata).without(_REVISION)
    return Rebuilt(Operation.CREATE, validated, NULL, before)


def _applied(exchange: Exchange, around: RebuildContext) -> Known | Missing:
    """The object of an apply that creates it, as the built-in mutators leave it."""
    try:
        created = created_by_apply(exchange, around.schemas)
    except UnappliedPatchError as error:
        if around.mutators(exchange, Operation.CREATE) or is_changed_by_webhook(exchange):
            return Missing("", str(error))
        return before_applied(exchange)
    return _sent(exchange, around, creating=True, created=created)


def _sent(exchange: Exchange, around: RebuildContext, *, creating: bool, created: JSON = None) -> Known | Missing:
    """The body, or the object that an apply creates, as the built-in mutators leave it."""
    sent = sent_object(exchange, creating=creating, created=created)
    if isinstance(sent, Missing):
        return sent
    known = after_builtin_mutators(sent, exchange, around.lister, creating=creating, undone=around.classes.undone)
    if not creating:
        return known
    mutated = around.mutators(exchange, Operation.CREATE) or is_changed_by_webhook(exchange)
    return around.classes.filled(known, exchange, around.lister, mutated=mutated)


def _updated(exchange: Exchange, old: Known | Missing, around: RebuildContext) -> Rebuilt:
    """An UPDATE: the response is the object, with the resourceVersion that it was to replace."""
    validated: Known | Missing
    is_patch = exchange.record.verb == "patch"
    if exchange.succeeded and exchange.shape is BodyShape.OBJECT:
        validated = _with_found_revision(Known(exchange.response.json, Basis.RECORDED), old, exchange)
        if not around.mutation:
            before: Known | Missing = NOT_ASKED
        elif is_patch:
            mutated = around.mutators(exchange, Operation.UPDATE) or is_changed_by_webhook(exchange)
            before = before_patched(exchange, validated, old, around.schemas, mutated=mutated)
        else:
            before = _sent(exchange, around, creating=False)
        return Rebuilt(Operation.UPDATE, validated, old, before)
    before = patched(exchange, old, around.schemas) if is_patch else _sent(exchange, around, creating=False)
    if isinstance(before, Missing):
        return Rebuilt(Operation.UPDATE, before, old, before)
    if exchange.succeeded and exchange.shape is BodyShape.PARTIAL_METADATA:
        before = before.with_value(("metadata",), exchange.response.metadata)
        validated = _with_found_revision(before, old, exchange)
    else:
        validated = after_update(before, old, exchange)
    return Rebuilt(Operation.UPDATE, validated, old, before)


def _with_found_revision(found: Known, old: Known | Missing, exchange: Exchange) -> Known:
    """An object that is to replace another carries its resourceVersion (`Store.Update`)."""
    if not isinstance(old, Missing) and old.value is not None:
        hole = next((hole for hole in old.holes if hole.path == _REVISION), None)
        return found.with_value(_REVISION, get(old.value, _REVISION)) if hole is None else found.with_holes([hole])
    named = sent_revision(exchange)
    if named is not None:
        return found.with_value(_REVISION, str(named))
    return found.with_holes([Hole(_REVISION, "the resourceVersion before the request is not known", RECORD_RESPONSES)])
