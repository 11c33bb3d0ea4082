"""`operation`, `object` and `oldObject` in the mutating and the validating phase."""

from __future__ import annotations

from msgspec import Struct

from replay.json import JSON
from replay.kube.attributes import Basis, Missing, Operation
from replay.kube.lister import Lister
from replay.kube.schema import Schemas
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.old_object import RECORD_RESPONSES, OldObjects, sent_revision
from replay.reconstruct.mutation_input import (
    Mutators,
    is_changed_by_webhook,
    no_policies,
    original_of_apply,
    original_of_patch,
    patched,
)
from replay.reconstruct.patch.apply import created_by_apply
from replay.reconstruct.patch.body import UnappliedPatchError
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get
from replay.reconstruct.request import sent_object
from replay.reconstruct.server.builtin import after_builtin_mutators
from replay.reconstruct.server.default_class import DefaultClasses
from replay.reconstruct.server.options import connect_object
from replay.reconstruct.server.strategy import after_create, after_update, as_validated

NULL = Known(None, Basis.RECORDED)
NOT_ASKED = Missing("", "replay did not rebuild the object before mutation")
_REVISION = ("metadata", "resourceVersion")
_AS_SENT = frozenset({"binding", "eviction"})
"""Subresources whose object passes through no strategy before validation."""


class Rebuilt(Struct, frozen=True):
    """The operation and objects in the validating phase, and the object with which the mutating policies begin."""

    operation: Operation
    object: Known | Missing
    old_object: Known | Missing
    before_mutation: Known | Missing


class RebuildContext(Struct, frozen=True):
    """Inputs of a rebuild besides the request's own record."""

    old_objects: OldObjects
    lister: Lister
    cluster: Cluster
    workspace: str
    classes: DefaultClasses
    mutators: Mutators = no_policies
    mutation: bool = True
    """A flag that the caller needs the object before mutation."""

    @property
    def schemas(self) -> Schemas:
        """The schemas in force for the request; those of custom kinds change with their definitions."""
        return self.cluster.schemas_of(self.workspace).seen_by(self.lister)


def rebuild(exchange: Exchange, context: RebuildContext, operation: Operation) -> Rebuilt:
    """Return the objects of a request with this operation, as its validating phase saw them in its last run."""
    if operation is Operation.CONNECT:
        options = connect_object(exchange)
        return Rebuilt(operation, options, NULL, options)
    if operation is Operation.CREATE:
        return _created(exchange, context)
    old = context.old_objects.old_object(exchange)
    if operation is Operation.DELETE:
        return Rebuilt(operation, NULL, old, NULL)
    return _updated(exchange, old, context)


def _created(exchange: Exchange, context: RebuildContext) -> Rebuilt:
    """Return the objects of a CREATE.

    The response is the object. Without it, the object is the body after the built-in plugins and the strategy.
    """
    shown = exchange.shape is BodyShape.OBJECT and exchange.record.subresource not in _AS_SENT
    if shown and not context.mutation:
        original: Known | Missing = NOT_ASKED
    elif exchange.record.verb == "patch":
        original = _applied(exchange, context)
    else:
        original = _sent(exchange, context, creating=True)
    if shown:
        # Validation comes before storage, which sets the resourceVersion.
        stored = Known(exchange.response.json, Basis.RECORDED).without(_REVISION)
        validated: Known | Missing = as_validated(stored, exchange)
    elif isinstance(original, Missing) or exchange.record.subresource in _AS_SENT:
        validated = original
    else:
        validated = after_create(original, exchange, exchange.api_resource)
        if exchange.shape is BodyShape.PARTIAL_METADATA:
            validated = validated.with_value(("metadata",), exchange.response.metadata).without(_REVISION)
    return Rebuilt(Operation.CREATE, validated, NULL, original)


def _applied(exchange: Exchange, context: RebuildContext) -> Known | Missing:
    """Return the object that an apply creates, after the built-in mutators."""
    try:
        created = created_by_apply(exchange, context.schemas)
    except UnappliedPatchError as error:
        # A mutator may have changed the object, so the response does not show what the client applied.
        if context.mutators(exchange, Operation.CREATE) or is_changed_by_webhook(exchange):
            return Missing("", str(error))
        return original_of_apply(exchange)
    return _sent(exchange, context, creating=True, created=created)


def _sent(exchange: Exchange, context: RebuildContext, *, creating: bool, created: JSON = None) -> Known | Missing:
    """Return the body, or the object that an apply creates, after the built-in mutators."""
    body = sent_object(exchange, creating=creating, created=created)
    if isinstance(body, Missing):
        return body
    original = after_builtin_mutators(body, exchange, context.lister, creating=creating, undone=context.classes.undone)
    if not creating:
        return original
    mutated = context.mutators(exchange, Operation.CREATE) or is_changed_by_webhook(exchange)
    return context.classes.filled(original, exchange, context.lister, mutated=mutated)


def _updated(exchange: Exchange, old: Known | Missing, context: RebuildContext) -> Rebuilt:
    """Return the objects of an UPDATE: the object is the response, with the resourceVersion that it was to replace."""
    validated: Known | Missing
    is_patch = exchange.record.verb == "patch"
    if exchange.shape is BodyShape.OBJECT:
        validated = _with_old_revision(Known(exchange.response.json, Basis.RECORDED), old, exchange)
        if not context.mutation:
            original: Known | Missing = NOT_ASKED
        elif is_patch:
            mutated = context.mutators(exchange, Operation.UPDATE) or is_changed_by_webhook(exchange)
            original = original_of_patch(exchange, validated, old, context.schemas, mutated=mutated)
        else:
            original = _sent(exchange, context, creating=False)
        return Rebuilt(Operation.UPDATE, validated, old, original)
    original = patched(exchange, old, context.schemas) if is_patch else _sent(exchange, context, creating=False)
    if isinstance(original, Missing):
        return Rebuilt(Operation.UPDATE, original, old, original)
    if exchange.shape is BodyShape.PARTIAL_METADATA:
        # The response has only the metadata after the write. The rest comes from the request.
        original = original.with_value(("metadata",), exchange.response.metadata)
        validated = _with_old_revision(original, old, exchange)
    else:
        validated = after_update(original, old, exchange)
    return Rebuilt(Operation.UPDATE, validated, old, original)


def _with_old_revision(new: Known, old: Known | Missing, exchange: Exchange) -> Known:
    """Return an object with the resourceVersion of the object that it is to replace (`Store.Update`)."""
    if not isinstance(old, Missing) and old.value is not None:
        hole = next((hole for hole in old.holes if hole.path == _REVISION), None)
        return new.with_value(_REVISION, get(old.value, _REVISION)) if hole is None else new.with_holes([hole])
    named = sent_revision(exchange)
    if named is not None:
        return new.with_value(_REVISION, str(named))
    return new.with_holes(
        [Hole(_REVISION, "the log does not show the resourceVersion before the request", RECORD_RESPONSES)]
    )
