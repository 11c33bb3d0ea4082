"""The fields that every object of a kind has when policies see it: required, defaulted, or demanded by validation.

Validating policies run after defaulting and validation (`k8s.io/apiserver/pkg/registry/generic/registry/store.go`).
Mutating policies run before validation, but an invalid object is refused after them anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from replay.json import JSON
from replay.kube.default.defaults import set_defaults
from replay.kube.schema import Schema
from replay.manifests.lint.reading import ELEMENT, SchemaPath

_CORE, _APPS = "io.k8s.api.core.v1.", "io.k8s.api.apps.v1."
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
_LABELS_OF_TEMPLATE: SchemaPath = ("template", "metadata", "labels")

_VALIDATED: Mapping[str, frozenset[SchemaPath]] = {
    _CORE + "Container": frozenset({("image",)}),
    _CORE + "EphemeralContainer": frozenset({("image",)}),
    _CORE + "PersistentVolumeClaimSpec": frozenset({("accessModes",), ("resources", "requests")}),
    _CORE + "PersistentVolumeSpec": frozenset({("accessModes",), ("capacity",)}),
    _APPS + "DeploymentSpec": frozenset({_LABELS_OF_TEMPLATE}),
    _APPS + "DaemonSetSpec": frozenset({_LABELS_OF_TEMPLATE}),
    _APPS + "StatefulSetSpec": frozenset({_LABELS_OF_TEMPLATE}),
    _APPS + "ReplicaSetSpec": frozenset({("template",), _LABELS_OF_TEMPLATE}),
    _CORE + "ReplicationControllerSpec": frozenset({("selector",), ("template",), _LABELS_OF_TEMPLATE}),
}
"""Fields that the server requires in addition to the schema (`Validate…` of `pkg/apis/*/validation`)."""

_WRITTEN_BY_PLUGINS: Mapping[str, frozenset[SchemaPath]] = {
    _CORE + "Pod": frozenset(
        ("spec", field) for field in ("preemptionPolicy", "priority", "serviceAccountName", "tolerations")
    ),
}
"""Fields that default plugins set if absent (ServiceAccount, Priority, DefaultTolerationSeconds)."""

_VARIATIONS: Mapping[str, JSON] = {"string": "another", "integer": 1, "boolean": True}
_BLANK: dict[str, Any] = {}


def optional_fields(schema: Schema, path: SchemaPath) -> Iterator[int]:
    """Yield the lengths of those prefixes of a path whose last field may be missing.

    `path` starts below the object.
    """
    at: Schema | None = schema
    around: list[Schema] = []
    for end, name in enumerate(path, 1):
        if at is None:
            return
        around.append(at)
        if name == ELEMENT:
            at = at.items or at.values
            continue
        field = at.fields.get(name)
        if field is None:
            at = at.values  # the key of a map
            continue
        is_there = (
            (end == 1 and name in _IDENTITY)
            or _is_there(at, name)
            or _is_defaulted(schema, path[:end])
            or _is_demanded(around, path[:end])
        )
        if not is_there:
            yield end
        at = field


def _is_there(schema: Schema, name: str) -> bool:
    """Return whether the schema says that the field is always present."""
    return name in schema.required or name in schema.always_written or name in schema.with_default


def _is_demanded(around: list[Schema], path: SchemaPath) -> bool:
    """Return whether validation demands the last field of a path, or a plugin sets it.

    `around` are the structs on the path.
    """
    return any(
        path[index:] in table.get(struct.name, ())
        for index, struct in enumerate(around)
        for table in (_VALIDATED, _WRITTEN_BY_PLUGINS)
    )


@lru_cache(maxsize=4096)
def _is_defaulted(schema: Schema, path: SchemaPath) -> bool:
    """Return whether defaulting always writes the field. A custom kind's schema says so."""
    return bool(schema.name) and all(
        _has(_defaulted(schema, path[:-1], beside), path) for beside in _besides(schema, path)
    )


def _besides(schema: Schema, path: SchemaPath) -> Iterator[dict[str, JSON]]:
    """Yield an empty map, then each other scalar field that may be beside the last field of a path.

    Defaulting of one field may depend on another.
    """
    yield _BLANK
    at: Schema | None = schema
    for name in path[:-1]:
        at = None if at is None else at.items if name == ELEMENT else at.field(name)
    if at is None:
        return
    for name, field in at.fields.items():
        if name != path[-1] and field.type in _VARIATIONS:
            yield {name: _VARIATIONS[field.type]}


def _defaulted(schema: Schema, path: SchemaPath, beside: dict[str, JSON]) -> JSON:
    """Return an object with only the fields on a path, defaulted."""
    value = _along(schema, path, beside)
    value["metadata"] = {"name": "example", **value.get("metadata", _BLANK)}
    set_defaults(schema, value)
    return value


def _along(schema: Schema | None, path: SchemaPath, beside: dict[str, JSON]) -> JSON:
    if not path or schema is None:
        return dict(beside)
    if path[0] != ELEMENT:
        return {path[0]: _along(schema.field(path[0]), path[1:], beside)}
    if schema.items is None:
        return {"example": _along(schema.values, path[1:], beside)}
    return [_along(schema.items, path[1:], beside)]


def _has(value: JSON, path: SchemaPath) -> bool:
    for name in path:
        if name == ELEMENT:
            value = next(iter(value.values() if isinstance(value, dict) else value), None)
        else:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return False
    return True
