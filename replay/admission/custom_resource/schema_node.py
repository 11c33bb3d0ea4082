"""Places of a custom object with their schemas, the old values, and the schemas that were in force.

`k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go` and `pkg/apiserver/validation/ratcheting.go`
define which old value belongs to a place: fields by name, items of `map` lists by their keys, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from replay.json import JSON

ABSENT = object()
"""Marker for a place without an old value."""
_ATOMIC = "atomic"


class SchemaNode(NamedTuple):
    """One place of a value. `before` is None if the schema in force is unknown or has no such place."""

    path: str
    schema: Mapping[str, JSON]
    before: Mapping[str, JSON] | None
    value: JSON
    old: object

    @property
    def is_unchanged(self) -> bool:
        """Return whether an update leaves the value unchanged. Its problems are then no reason to refuse the update."""
        return self.old is not ABSENT and self.old == self.value


def nodes(schema: JSON, before: JSON, value: JSON, old: object = ABSENT, path: str = "") -> Iterator[SchemaNode]:
    """Yield the places of a value from the top, fields sorted by name.

    Parts that the schema does not describe are skipped.
    """
    if not isinstance(schema, dict) or value is None:
        return
    known = before if isinstance(before, dict) else None
    yield SchemaNode(path, schema, known, value, old)
    if isinstance(value, dict):
        for name in sorted(value):
            part = _field(schema, name)
            at = f"{path}.{name}" if path else name
            yield from nodes(part, _field(known or {}, name), value[name], _old_field(schema, old, name), at)
    elif isinstance(value, list):
        items = (known or {}).get("items")
        for place, item in enumerate(value):
            yield from nodes(schema.get("items"), items, item, _old_item(schema, old, item), f"{path}[{place}]")


def _field(schema: Mapping[str, JSON], name: str) -> JSON:
    others = schema.get("additionalProperties")
    return (schema.get("properties") or {}).get(name, others if isinstance(others, dict) else None)


def _old_field(schema: Mapping[str, JSON], old: object, name: str) -> object:
    if not isinstance(old, dict) or schema.get("x-kubernetes-map-type") == _ATOMIC:
        return ABSENT
    return old.get(name, ABSENT)


def _old_item(schema: Mapping[str, JSON], old: object, item: JSON) -> object:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map" or not isinstance(item, dict):
        return ABSENT
    same = (each for each in old if isinstance(each, dict) and all(each.get(key) == item.get(key) for key in keys))
    return next(same, ABSENT)
