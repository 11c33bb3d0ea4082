"""The object after an apply configuration (server-side apply), as far as fields, maps and whole lists go.

What the configuration names takes its value (`managedfields/internal.structuredMergeManager.Apply`; a conflict is refused, or
forced), and what its manager had applied before and leaves out now goes away. How lists are merged item by item is left
open here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from replay.json import JSON, FieldPath
from replay.kube.default.defaults import set_custom_defaults
from replay.kube.schema import Schema, Schemas
from replay.reconstruct.patch.body import UnappliedPatchError
from replay.reconstruct.patch.result import builtin_schema, settled
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OPEN = "how an apply configuration is merged into a list is not rebuilt"
_MANAGED = ("metadata", "managedFields")


def created_by_apply(exchange: Exchange, schemas: Schemas) -> JSON:
    """The object that an apply configuration creates: itself, as its type holds it, with defaults.

    (`managedfields/internal.structuredMergeManager.Apply` on an empty object.) Raises `UnappliedPatchError` where that is
    not known.
    """
    kind, configuration = exchange.kind, exchange.request.json
    if not isinstance(configuration, dict):
        raise UnappliedPatchError("the apply configuration is not recorded")
    if kind is None or (configuration.get("kind"), configuration.get("apiVersion")) != (kind.kind, kind.api_version):
        raise UnappliedPatchError("the apply configuration is of another version than the request")
    schema = schemas.for_kind(kind)
    if schema is None:
        raise UnappliedPatchError("an apply configuration is defaulted by a schema that is not known")
    return (
        set_custom_defaults(schema, configuration) if schemas.is_custom(kind) else settled(schema, configuration, None)
    )


def after_apply(exchange: Exchange, old: Known) -> Known:
    """The object that an apply configuration makes of an old one; raises `UnappliedPatchError` where that is open."""
    schema, configuration = builtin_schema(exchange), exchange.request.json
    if schema is None:
        raise UnappliedPatchError("an apply configuration is merged by a schema that is not known")
    if may_remove(exchange, old):
        raise UnappliedPatchError("what an apply configuration leaves out may go away")
    lists: list[FieldPath] = []
    merged = _merged(schema, old.value, configuration, (), lists)
    holes = (*old.holes, *(Hole(path, _OPEN) for path in lists))
    return Known(settled(schema, merged, old.value), old.basis, holes)


def may_remove(exchange: Exchange, old: Known) -> bool:
    """Whether the manager may own something that its configuration leaves out: then that goes away.

    Without `managedFields`, which a log may omit, nobody can tell; `kubectl` also takes over what it applied on the client.
    """
    manager = (exchange.query.get("fieldManager") or [""])[0]
    entries = get(old.value, _MANAGED)
    if not entries or any(hole.path == _MANAGED for hole in old.holes):
        return True
    if manager == "kubectl" and get(old.value, ("metadata", "annotations", _LAST_APPLIED)):
        return True
    own = (manager, "Apply", exchange.record.subresource)
    return any(
        (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == own
        and not all(_holds(exchange.request.json, path) for path in _owned(entry.get("fieldsV1") or {}, ()))
        for entry in entries
    )


def _owned(fields: JSON, at: FieldPath) -> Iterator[FieldPath]:
    """The paths of a `FieldsV1` whose parts are as written there: `f:name`, `k:{...}`, `v:...`."""
    for name, below in fields.items():
        if name == ".":
            continue
        path = (*at, name)
        yield path
        yield from _owned(below, path)


def _holds(value: JSON, path: FieldPath) -> bool:
    """Whether a configuration has something at a path of a `FieldsV1`."""
    for part in map(str, path):
        kind, _, text = part.partition(":")
        if kind == "f" and isinstance(value, dict) and text in value:
            value = value[text]
        elif kind == "k" and isinstance(value, list):
            keys = json.loads(text)
            found = [item for item in value if isinstance(item, dict) and keys.items() <= item.items()]
            if not found:
                return False
            value = found[0]
        elif kind == "v" and isinstance(value, list) and json.loads(text) in value:
            value = None
        else:
            return False
    return True


def _merged(schema: Schema, old: JSON, new: dict[str, JSON], at: FieldPath, lists: list[FieldPath]) -> JSON:
    """Two maps merged; `lists` collects what stays open."""
    after = dict(old) if isinstance(old, dict) else {}
    for name, value in new.items():
        field, path = schema.field(name), (*at, name)
        if field is None or value is None:
            raise UnappliedPatchError("the apply configuration does not fit the kind of the object")
        if isinstance(value, dict) and field.map_type != "atomic" and (field.fields or field.values):
            after[name] = _merged(field, after.get(name), value, path, lists)
        elif isinstance(value, list) and field.list_type in ("map", "set") and after.get(name):
            lists.append(path)
        else:
            after[name] = value
    return after
