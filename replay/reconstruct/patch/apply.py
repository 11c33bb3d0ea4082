"""The object after an apply configuration (server-side apply), and the owners of its fields.

A field of the configuration gets its value (`managedfields/internal.structuredMergeManager.Apply`). A conflict is
refused or forced. A field that the manager applied before and now omits is removed, unless another manager owns it.
"""

from __future__ import annotations

from functools import cache

from replay.json import JSON, FieldPath
from replay.kube.default import set_custom_defaults
from replay.kube.go_object import round_trip
from replay.kube.gvk import GroupVersionKind
from replay.kube.merge.atom import Atoms
from replay.kube.merge.field_manager import (
    APPLY,
    UPDATE,
    ApplyConflictError,
    FieldManager,
    ForeignVersionError,
    Managers,
    Writer,
    applied,
    entries_of,
    managers_of,
    updated,
)
from replay.kube.merge.merge_key import MergeError
from replay.kube.schema import Schema, Schemas
from replay.reconstruct.history.derived import second
from replay.reconstruct.patch.body import PatchForm, UnappliedPatchError, form_of
from replay.reconstruct.patch.result import settled
from replay.reconstruct.record.exchange import Exchange, query_of
from replay.reconstruct.record.known import Known, get, removed

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MANAGED: FieldPath = ("metadata", "managedFields")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_LONGEST_NAME = 128
_NOBODY: Managers = {}
_STATUS = frozenset({("f:status",)})


def created_by_apply(exchange: Exchange, schemas: Schemas) -> JSON:
    """Return the object that an apply configuration creates: the configuration in the form of its type, with defaults.

    Raise `UnappliedPatchError` if the result is unknown.

    Source: `managedfields/internal.structuredMergeManager.Apply` on an empty object.
    """
    kind, configuration = exchange.kind, exchange.request.json
    if not isinstance(configuration, dict):
        raise UnappliedPatchError("the log does not have the apply configuration")
    if kind is None or (configuration.get("kind"), configuration.get("apiVersion")) != (kind.kind, kind.api_version):
        raise UnappliedPatchError("the apply configuration has another API version than the request")
    schema = schemas.for_kind(kind)
    if schema is None:
        raise UnappliedPatchError("the schema of the applied object is not known, and it sets defaults")
    return (
        set_custom_defaults(schema, configuration) if schemas.is_custom(kind) else settled(schema, configuration, None)
    )


def after_apply(exchange: Exchange, old: Known, schemas: Schemas) -> Known:
    """Return the result of an apply configuration, with its managers.

    Raise `UnappliedPatchError` if the result is unknown, and `ApplyConflictError` if another manager owns a changed
    field.
    """
    schema, kind = _schema_of(exchange, schemas)
    managers = _managers(exchange, old, kind)
    live = removed(old.value, MANAGED)
    try:
        after, managers = applied(_atoms().atom_for(schema), live, exchange.request.json, managers, writer_of(exchange))
    except MergeError as error:
        raise UnappliedPatchError("the apply configuration does not match the schema of its kind") from error
    except ApplyConflictError as error:
        if old.holes:
            raise UnappliedPatchError(
                "parts of the object are not known, and the apply may conflict with them"
            ) from error
        raise
    # An apply that changes nothing leaves the live object as it is (`structuredMergeManager.Apply`).
    if after != live:
        after = set_custom_defaults(schema, after) if schemas.is_custom(kind) else settled(schema, after, live)
    entries = entries_of(managers, get(old.value, MANAGED), second(exchange.record.received))
    return Known(after, old.basis, old.holes).with_value(MANAGED, entries)


def managers_after(exchange: Exchange, old: Known, new: Known, schemas: Schemas) -> list[JSON]:
    """Return the `managedFields` after a write, as they are before mutation. `old` is null for a creation.

    Raise `UnappliedPatchError` if they are unknown, and `ApplyConflictError`.
    """
    schema, kind = _schema_of(exchange, schemas)
    atom, writer = _atoms().atom_for(schema), writer_of(exchange)
    if old.value is None:
        # A creation is compared with the empty Go object, whose JSON has the fields that Go never omits.
        empty: JSON = {"apiVersion": kind.api_version, "kind": kind.kind}
        live, managers = empty if schemas.is_custom(kind) else round_trip(schema, empty), _NOBODY
    else:
        live, managers = removed(old.value, MANAGED), _managers(exchange, old, kind)
    try:
        if writer.manager.operation == APPLY:
            _, managers = applied(atom, live, exchange.request.json, managers, writer)
        else:
            managers = updated(atom, live, removed(new.value, MANAGED), managers, writer)
    except MergeError as error:
        raise UnappliedPatchError(str(error)) from error
    return entries_of(managers, get(old.value, MANAGED) or (), second(exchange.record.received))


def _schema_of(exchange: Exchange, schemas: Schemas) -> tuple[Schema, GroupVersionKind]:
    kind = exchange.parent_kind if exchange.record.subresource else exchange.kind
    schema = schemas.for_kind(kind) if kind is not None else None
    if schema is None or kind is None:
        raise UnappliedPatchError("the schema of the object is not known, and it decides field ownership")
    return schema, kind


def _managers(exchange: Exchange, old: Known, kind: GroupVersionKind) -> Managers:
    """Return the field managers of an old object. Raise `UnappliedPatchError` if unknown."""
    entries = get(old.value, MANAGED)
    if not (are_managers_known(old) and exchange.has_query):
        raise UnappliedPatchError("the apply may remove fields that it omits, and the log does not show managedFields")
    # The server takes over what `kubectl` applied on the client (`managedfields/internal.lastAppliedManager.Apply`),
    # which is not followed here.
    if writer_of(exchange).manager.name == "kubectl" and get(old.value, ("metadata", "annotations", _LAST_APPLIED)):
        raise UnappliedPatchError(
            "the object was last written by client-side apply, and replay does not simulate the change to server-side apply"
        )
    try:
        return managers_of(entries, kind.api_version)
    except (ForeignVersionError, MergeError) as error:
        raise UnappliedPatchError(str(error)) from error


def are_managers_known(value: Known) -> bool:
    """Return whether the field managers of an object are known: a log may omit `managedFields`."""
    return bool(get(value.value, MANAGED)) and not any(hole.path[:2] == MANAGED for hole in value.holes)


def writer_of(exchange: Exchange) -> Writer:
    """Return the field manager of a write (`managerOrUserAgent`), and the fields that its endpoint ignores."""
    record, query = exchange.record, query_of(exchange.record.request_uri)
    name = (query.get("fieldManager") or [""])[0] or record.user_agent.partition("/")[0][:_LONGEST_NAME] or "unknown"
    is_apply = record.verb == "patch" and form_of(exchange) is PatchForm.APPLY
    version = f"{record.api_group}/{record.api_version}" if record.api_group else record.api_version
    has_status = exchange.api_resource is not None and "status" in exchange.api_resource.subresources
    manager = FieldManager(name, APPLY if is_apply else UPDATE, record.subresource, version)
    force = (query.get("force") or [""])[0] in _TRUE
    return Writer(manager, _STATUS if has_status and not record.subresource else frozenset(), force)


@cache
def _atoms() -> Atoms:
    return Atoms()
