"""The same request on another object: its attributes after the candidate has changed the object."""

from __future__ import annotations

from msgspec import Struct

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.json import JSON
from replay.kube import json_patch
from replay.kube.attributes import Attributes, Basis, Missing, Operation, UserInfo
from replay.kube.go_object import DecodeError
from replay.kube.json_patch import JSONPatchError
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
from replay.reconstruct.request import ReplayRequest, sent_object
from replay.reconstruct.server.builtin import after_builtin_mutators
from replay.reconstruct.server.strategy import after_create, after_update
from replay.world.controller import is_controller
from replay.world.creation import is_apply
from replay.world.patching import after_patch_of
from replay.world.result import Cause
from replay.world.state import known_or_missing
from replay.world.step import WorldStep

_MANAGED = Hole(MANAGED, "replay does not predict managedFields under the candidate")
COUNTED = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
"""Metadata that the server sets itself, and that differs even between equal objects."""
_STATUS = ("status",)
_NOT_SENT = tuple(f"/metadata/{name}" for name in COUNTED)
"""Fields that only the server sets."""
_ANYONE = UserInfo(missing=("username", "uid", "groups", "extra"))
_UNANSWERED = 409
"""Placeholder status. A failed request reveals nothing about the object."""


class RequestAdapter(Struct, frozen=True):
    """Builds requests of the log on objects that differ from the log's."""

    reconstructor: Reconstructor
    patchers: ObjectPatchers
    unread: frozenset[str] = frozenset()
    """Names in `COUNTED` that no policy of the candidate reads."""

    def creation(self, exchange: Exchange, lister: Lister) -> ReplayRequest:
        """Return the request that creates the object of an update or apply, which existed in the log."""
        alone = self._without_answer(exchange)
        original = self._created_by_apply(alone, lister) if is_apply(exchange) else sent_object(alone, creating=True)
        if isinstance(original, Missing):
            return self.reconstructor.on_another(alone, Rebuilt(Operation.CREATE, original, NULL, original))
        original = after_builtin_mutators(original, alone, lister, creating=True)
        # The strategy prepares the object after mutation and before validation (`Store.Create`, `rest.BeforeCreate`).
        validated = after_create(original, alone, alone.api_resource)
        return self.reconstructor.on_another(alone, Rebuilt(Operation.CREATE, validated, NULL, original))

    def creation_by_anyone(self, exchange: Exchange, obj: Known | Missing) -> ReplayRequest:
        """Return the creation of an object by an unknown user."""
        record = self._without_answer(exchange).record._replace(
            verb="create", subresource="", request_uri="", request_object=None, user=_ANYONE, caller=""
        )
        creation = Exchange(record, self.reconstructor.cluster.discovery)
        return self.reconstructor.on_another(creation, Rebuilt(Operation.CREATE, obj, NULL, obj))

    def update(self, step: WorldStep, live: Known | Missing) -> ReplayRequest:
        """Return the update, patch or apply of a live object.

        Raise `ApplyConflictError` if another manager owns its fields, `UnfittingPatchError` if the server refuses the
        patch.
        """
        alone = self._without_answer(step.exchange)
        # Field managers are computed from `full`, which keeps the unknown parts that no policy reads.
        full, live = live, self._without_unread_holes(live)
        # Admission of this subresource sees a Scale, not the workload.
        if alone.record.subresource == "scale" and isinstance(live, Known):
            live = scale_of(live)
        if is_apply(alone):
            original = self._applied(alone, full, live, step.lister)
        else:
            original = self._without_unread_managers(self._before_update(step, alone, live), live)
            original = self.with_managers(step, full, original, original)
        validated = original if isinstance(original, Missing) else after_update(original, live, alone)
        return self.reconstructor.on_another(alone, Rebuilt(Operation.UPDATE, validated, live, original))

    def deletion(self, exchange: Exchange, live: Known | Missing) -> ReplayRequest:
        """Return the deletion of a live object."""
        live = self._without_unread_holes(live)
        return self.reconstructor.on_another(
            self._without_answer(exchange), Rebuilt(Operation.DELETE, NULL, live, NULL)
        )

    def _before_update(self, step: WorldStep, alone: Exchange, live: Known | Missing) -> Known | Missing:
        if alone.record.verb == "patch":
            return after_patch_of(alone, live, self._schemas(alone, step.lister), strategic=step.is_strategic)
        body = sent_object(alone, creating=False)
        if is_controller(alone.record.user.username) and alone.record.subresource != "scale":
            body = _written_back(step, body, live)
        return body if isinstance(body, Missing) else after_builtin_mutators(body, alone, step.lister, creating=False)

    def _without_unread_holes(self, live: Known | Missing) -> Known | Missing:
        """Return an object without unknown parts that no policy reads."""
        if isinstance(live, Missing) or not live.holes:
            return live
        unread = {("metadata", name) for name in self.unread} | {_STATUS}
        return Known(live.value, live.basis, tuple(hole for hole in live.holes if hole.path not in unread))

    def _without_unread_managers(self, original: Known | Missing, live: Known | Missing) -> Known | Missing:
        """Return an object with the field managers of the old object, if no policy reads them.

        An update without changes leaves the managers alone; after a real change no policy compares them.
        """
        if isinstance(original, Missing) or isinstance(live, Missing) or "managedFields" not in self.unread:
            return original
        managed = get(live.value, MANAGED)
        return original.without(MANAGED) if managed is None else original.with_value(MANAGED, managed)

    def with_managers(
        self, step: WorldStep, live: Known | Missing, original: Known | Missing, stored: Known | Missing
    ) -> Known | Missing:
        """Return what a write stores, with its field managers before the mutating phase has changed `stored`."""
        exchange = step.exchange
        if not step.precedes_apply or isinstance(stored, Missing):
            return stored
        if exchange.record.subresource == "status":  # a status write changes no other manager's fields
            if isinstance(live, Missing) or not are_managers_known(live) or are_managers_known(stored):
                return stored
            return stored.with_value(MANAGED, get(live.value, MANAGED))
        if isinstance(live, Missing) or isinstance(original, Missing) or "managedFields" not in self.unread:
            return stored.with_holes([_MANAGED])
        try:
            managers = managers_after(exchange, live, original, self._schemas(exchange, step.lister))
        except (UnappliedPatchError, ApplyConflictError):
            return stored.with_holes([_MANAGED])
        return stored.with_value(MANAGED, managers)

    def stored_after_failure(self, step: WorldStep, live: Known | Missing, new: Known | Missing) -> Known | Missing:
        """Return what a write stores if the log's request stored nothing, with its field managers."""
        if not step.precedes_apply or step.logged.cause == Cause.SUCCEEDS:
            return new
        original = step.request.before_mutation
        return (
            self.with_managers(step, live, known_or_missing(original.object), new)
            if isinstance(original, Attributes)
            else new
        )

    def _schemas(self, exchange: Exchange, lister: Lister) -> Schemas:
        """Return the schemas in force for a request.

        Those of custom resources come from the definitions in `lister`.
        """
        return self.reconstructor.cluster.schemas_of(exchange.record.workspace).seen_by(lister)

    def _applied(
        self, alone: Exchange, full: Known | Missing, live: Known | Missing, lister: Lister
    ) -> Known | Missing:
        """Return the result of an apply configuration. `full` is the live object with all of its unknown parts."""
        if isinstance(live, Missing) or isinstance(full, Missing):
            reason = live.reason if isinstance(live, Missing) else ""
            return Missing("", f"the log has the apply configuration, but the object before it is not known: {reason}")
        base = live if are_managers_known(full) else live.without(MANAGED)
        try:
            after = after_apply(alone, base, self._schemas(alone, lister))
        except UnappliedPatchError as error:
            return Missing("", str(error))
        return after if "managedFields" in self.unread else after.with_holes([_MANAGED])

    def _created_by_apply(self, alone: Exchange, lister: Lister) -> Known | Missing:
        """Return the object that an apply configuration creates."""
        configuration = alone.request.json
        patcher = self.patchers.patcher_for(alone.kind, lister) if alone.kind is not None else None
        if patcher is None or not isinstance(configuration, dict):
            return Missing("", "the schema of the applied object is not known")
        try:
            created = patcher.settle(_in_namespace(configuration, alone))
        except DecodeError:
            return Missing("", "the apply configuration does not match the schema of its kind")
        new = Known(created, Basis.RECONSTRUCTED)
        try:
            return new.with_value(MANAGED, managers_after(alone, NULL, new, self._schemas(alone, lister)))
        except UnappliedPatchError:
            return new.with_holes([_MANAGED])

    def _without_answer(self, exchange: Exchange) -> Exchange:
        """Return the request without its answer, which belongs to the log's object."""
        record = exchange.record._replace(
            response_object=None, code=_UNANSWERED, status_message="", status_reason="", annotations=None
        )
        return Exchange(record, self.reconstructor.cluster.discovery)


def _written_back(step: WorldStep, body: Known | Missing, live: Known | Missing) -> Known | Missing:
    """Return what a controller sends if it sees another object: that object, with the changes that it made in the log.

    Controllers change a copy of what they watch (`pkg/controller/statefulset`, `UpdateStatus`). The rest of their body
    is only what they saw.
    """
    logged = step.old
    if isinstance(body, Missing) or isinstance(live, Missing) or isinstance(logged, Missing):
        return body
    if logged.value is None or live.value is None:
        return body
    changes = [
        change for change in json_patch.diff(logged.value, body.value) if not change["path"].startswith(_NOT_SENT)
    ]
    try:
        return Known(json_patch.apply(live.value, changes), Basis.RECONSTRUCTED, (*live.holes, *body.holes))
    except JSONPatchError:
        return body


def after_write(state: Known | Missing, exchange: Exchange, written: Known | Missing) -> Known | Missing:
    """Return the object after a write to it or to its scale."""
    if exchange.record.subresource != "scale":
        return written
    if isinstance(state, Missing) or isinstance(written, Missing):
        return state
    if exchange.record.verb == "update" and not get(exchange.request.json, MANAGED):
        state = _without_owner_of_replicas(state)
    return state.with_value(("spec", "replicas"), get(written.value, ("spec", "replicas")) or 0)


def _without_owner_of_replicas(state: Known) -> Known:
    """Return a workload whose replicas have no field manager, as after a PUT of a Scale without managedFields.

    The handler takes the owners of the Scale that was sent for those of the workload
    (`managedfields.ScaleHandler.ToParent`).
    """
    entries = get(state.value, MANAGED)
    if not isinstance(entries, list):
        return state
    left = []
    for entry in entries:
        fields = entry.get("fieldsV1") or {}
        spec = fields.get("f:spec")
        if isinstance(spec, dict) and "f:replicas" in spec:
            rest = {name: each for name, each in spec.items() if name != "f:replicas"}
            others = {name: each for name, each in fields.items() if name != "f:spec"}
            fields = {**others, "f:spec": rest} if rest else others
            if not fields:
                continue
            entry = {**entry, "fieldsV1": fields}  # noqa: PLW2901 - the entry without the field
        left.append(entry)
    return state.with_value(MANAGED, left)


def _in_namespace(configuration: dict[str, JSON], exchange: Exchange) -> dict[str, JSON]:
    """Return an apply configuration with the name and namespace of the URL."""
    metadata = dict(configuration.get("metadata") or {})
    metadata.setdefault("name", exchange.record.name)
    # For a Namespace, the request names itself as its namespace (`RequestInfoFactory.NewRequestInfo`).
    if exchange.record.namespace and exchange.record.resource != "namespaces":
        metadata.setdefault("namespace", exchange.record.namespace)
    return {**configuration, "metadata": metadata}
