"""The same request on another object: what admission is told where the candidate's world has come to differ."""

from __future__ import annotations

from msgspec import Struct

from replay.admission import json_patch
from replay.admission.json_patch import JSONPatchError
from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.json import JSON
from replay.kube.attributes import Attributes, Basis, Missing, Operation
from replay.kube.go_object import DecodeError
from replay.kube.lister import Lister
from replay.kube.merge.field_manager import ApplyConflictError
from replay.kube.schema import Schemas
from replay.reconstruct.history.derived import scale_of
from replay.reconstruct.patch.apply import MANAGED, after_apply, are_managers_known, managers_after
from replay.reconstruct.patch.body import UnappliedPatchError
from replay.reconstruct.rebuild import NULL, Rebuilt
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get
from replay.reconstruct.request import ReplayRequest
from replay.reconstruct.request_object import sent_object
from replay.reconstruct.server.builtin import after_builtin_mutators
from replay.reconstruct.server.strategy import after_create, after_update
from replay.world.controller import is_controller
from replay.world.creation import is_apply
from replay.world.patching import after_patch_of
from replay.world.result import Cause
from replay.world.state import known_of
from replay.world.step import WorldStep

_MANAGED = Hole(MANAGED, "managedFields in a world that did not come to pass are not followed")
COUNTED = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
"""Metadata that the server counts and that differs in every world."""
_STATUS = ("status",)
_NOT_SENT = tuple(f"/metadata/{name}" for name in COUNTED)
"""Where the server decides alone what an object holds."""
_UNANSWERED = 409
"""A status of no consequence: whatever failed shows nothing of the object."""


class Elsewhere(Struct, frozen=True):
    """Makes requests on another object than that of the log."""

    reconstructor: Reconstructor
    patchers: ObjectPatchers
    unread: frozenset[str] = frozenset()
    """Of the metadata that the server counts, the names that no policy of the candidate mentions."""

    def created(self, exchange: Exchange, lister: Lister) -> ReplayRequest:
        """An update or apply that creates its object: the log's was there."""
        alone = self._alone(exchange)
        before = self._created_by_apply(alone) if is_apply(exchange) else sent_object(alone, creating=True)
        if isinstance(before, Missing):
            return self.reconstructor.on_another(alone, Rebuilt(Operation.CREATE, before, NULL, before))
        before = after_builtin_mutators(before, alone, lister, creating=True)
        validated = after_create(before, alone, alone.api_resource)
        return self.reconstructor.on_another(alone, Rebuilt(Operation.CREATE, validated, NULL, before))

    def updated(self, step: WorldStep, found: Known | Missing) -> ReplayRequest:
        """An update, patch or apply of the object found; raises `ApplyConflictError` where another manager owns its fields."""
        alone = self._alone(step.exchange)
        whole, found = found, self._settled(found)
        if alone.record.subresource == "scale" and isinstance(found, Known):
            found = scale_of(found)
        if is_apply(alone):
            before = self._applied(alone, whole, found)
        else:
            before = self._uncounted(self._before_update(step, alone, found), found)
            before = self.owned(step, whole, before, before)
        validated = before if isinstance(before, Missing) else after_update(before, found, alone)
        return self.reconstructor.on_another(alone, Rebuilt(Operation.UPDATE, validated, found, before))

    def deleted(self, exchange: Exchange, found: Known | Missing) -> ReplayRequest:
        """A deletion of the object found."""
        found = self._settled(found)
        return self.reconstructor.on_another(self._alone(exchange), Rebuilt(Operation.DELETE, NULL, found, NULL))

    def _before_update(self, step: WorldStep, alone: Exchange, found: Known | Missing) -> Known | Missing:
        if alone.record.verb == "patch":
            return after_patch_of(alone, found, self._schemas(alone), strategic=step.is_strategic)
        sent = sent_object(alone, creating=False)
        if is_controller(alone.record.user.username) and alone.record.subresource != "scale":
            sent = _written_back(step, sent, found)
        return sent if isinstance(sent, Missing) else after_builtin_mutators(sent, alone, step.lister, creating=False)

    def _settled(self, found: Known | Missing) -> Known | Missing:
        """An object without holes that nobody looks into."""
        if isinstance(found, Missing) or not found.holes:
            return found
        unread = {("metadata", name) for name in self.unread} | {_STATUS}
        return Known(found.value, found.basis, tuple(hole for hole in found.holes if hole.path not in unread))

    def _uncounted(self, before: Known | Missing, found: Known | Missing) -> Known | Missing:
        """An object with the field managers of the old one.

        An update that changes nothing leaves them alone, and of one that does change something nobody asks whether they are the same.
        """
        if isinstance(before, Missing) or isinstance(found, Missing) or "managedFields" not in self.unread:
            return before
        managed = get(found.value, MANAGED)
        return before.without(MANAGED) if managed is None else before.with_value(MANAGED, managed)

    def owned(
        self, step: WorldStep, found: Known | Missing, before: Known | Missing, stored: Known | Missing
    ) -> Known | Missing:
        """What a write stores, with the field managers that it has before the mutating phase makes `stored` of it."""
        exchange = step.exchange
        if not step.precedes_apply or isinstance(stored, Missing) or exchange.record.subresource == "status":
            return stored
        if isinstance(found, Missing) or isinstance(before, Missing) or "managedFields" not in self.unread:
            return stored.with_holes([_MANAGED])
        try:
            managers = managers_after(exchange, found, before, self._schemas(exchange))
        except (UnappliedPatchError, ApplyConflictError):
            return stored.with_holes([_MANAGED])
        return stored.with_value(MANAGED, managers)

    def stored(self, step: WorldStep, found: Known | Missing, seen: Known | Missing) -> Known | Missing:
        """What a write that stored nothing in the log leaves, with who owns its fields."""
        if not step.precedes_apply or step.logged.cause == Cause.SUCCEEDS:
            return seen
        before = step.request.before_mutation
        return self.owned(step, found, known_of(before.object), seen) if isinstance(before, Attributes) else seen

    def _schemas(self, exchange: Exchange) -> Schemas:
        return self.reconstructor.cluster.schemas_of(exchange.record.workspace)

    def _applied(self, alone: Exchange, whole: Known | Missing, found: Known | Missing) -> Known | Missing:
        """What an apply configuration makes of an object; `whole` is the same with all that is not known of it."""
        if isinstance(found, Missing) or isinstance(whole, Missing):
            reason = found.reason if isinstance(found, Missing) else ""
            return Missing("", f"an apply is recorded, and what it was applied to is not known: {reason}")
        known = found if are_managers_known(whole) else found.without(MANAGED)
        try:
            after = after_apply(alone, known, self._schemas(alone))
        except UnappliedPatchError as error:
            return Missing("", str(error))
        return after if "managedFields" in self.unread else after.with_holes([_MANAGED])

    def _created_by_apply(self, alone: Exchange) -> Known | Missing:
        """What an apply configuration makes of nothing."""
        configuration = alone.request.json
        patcher = self.patchers.of(alone.kind) if alone.kind is not None else None
        if patcher is None or not isinstance(configuration, dict):
            return Missing("", "an apply configuration is merged by a schema that is not known")
        try:
            created = patcher.settle(_in_namespace(configuration, alone))
        except DecodeError:
            return Missing("", "the apply configuration does not fit the kind of the object")
        known = Known(created, Basis.RECONSTRUCTED)
        try:
            return known.with_value(MANAGED, managers_after(alone, NULL, known, self._schemas(alone)))
        except UnappliedPatchError:
            return known.with_holes([_MANAGED])

    def _alone(self, exchange: Exchange) -> Exchange:
        """The request without its answer, which is of another world."""
        record = exchange.record._replace(
            response_object=None, code=_UNANSWERED, status_message="", status_reason="", annotations=None
        )
        return Exchange(record, self.reconstructor.cluster.discovery)


def _written_back(step: WorldStep, sent: Known | Missing, found: Known | Missing) -> Known | Missing:
    """What a controller sends where it has seen another object: that with the changes that it made to the one of the log.

    Controllers change a copy of what they watch (`pkg/controller/statefulset`, `UpdateStatus`), so that all else in what they
    send is only what they saw.
    """
    before = step.before
    if isinstance(sent, Missing) or isinstance(found, Missing) or isinstance(before, Missing):
        return sent
    if before.value is None or found.value is None:
        return sent
    changes = [
        change for change in json_patch.diff(before.value, sent.value) if not change["path"].startswith(_NOT_SENT)
    ]
    try:
        return Known(json_patch.apply(found.value, changes), Basis.RECONSTRUCTED, sent.holes)
    except JSONPatchError:
        return sent


def after_write(state: Known | Missing, exchange: Exchange, written: Known | Missing) -> Known | Missing:
    """The object after a write of it, or of its scale."""
    if exchange.record.subresource != "scale":
        return written
    if isinstance(state, Missing) or isinstance(written, Missing):
        return state
    return state.with_value(("spec", "replicas"), get(written.value, ("spec", "replicas")) or 0)


def _in_namespace(configuration: dict[str, JSON], exchange: Exchange) -> dict[str, JSON]:
    """A configuration that creates its object, with the name and namespace of the URL."""
    metadata = dict(configuration.get("metadata") or {})
    metadata.setdefault("name", exchange.record.name)
    if exchange.record.namespace and exchange.record.resource != "namespaces":
        metadata.setdefault("namespace", exchange.record.namespace)
    return {**configuration, "metadata": metadata}
