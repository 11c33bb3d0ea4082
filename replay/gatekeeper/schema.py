"""Schema of a kind of constraints, including the template's parameters (`constraint/pkg/client/crds`)."""

from __future__ import annotations

from typing import Any

from replay.json import JSON
from replay.kube.custom_schema import PRESERVE

_WILDCARD = {"type": "string", "pattern": r"^\*?[-:a-z0-9]*\*?$"}
_STRINGS = {"type": "array", "items": {"type": "string"}}
_SELECTOR = {
    "type": "object",
    "properties": {
        "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "matchExpressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {"key": {"type": "string"}, "operator": {"type": "string"}, "values": _STRINGS},
            },
        },
    },
}
MATCH = {
    "type": "object",
    "properties": {
        "source": {"type": "string", "enum": ["All", "Generated", "Original"]},
        "kinds": {
            "type": "array",
            "items": {"type": "object", "properties": {"apiGroups": _STRINGS, "kinds": _STRINGS}},
        },
        "scope": {"type": "string"},
        "namespaces": {"type": "array", "items": _WILDCARD},
        "excludedNamespaces": {"type": "array", "items": _WILDCARD},
        "labelSelector": _SELECTOR,
        "namespaceSelector": _SELECTOR,
        "name": _WILDCARD,
    },
}
_SCOPED = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "action": {"type": "string"},
            "enforcementPoints": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        },
    },
}


def constraint_schema(parameters: JSON) -> dict[str, Any]:
    """Return the schema of a kind of constraints (`crds.CreateSchema`). None means no parameters."""
    spec: dict[str, Any] = {
        "match": MATCH,
        "enforcementAction": {"type": "string", "default": "deny"},
        "scopedEnforcementActions": _SCOPED,
    }
    if parameters is not None:
        spec["parameters"] = parameters
    return {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}},
            "spec": {"type": "object", "properties": spec},
            "status": {PRESERVE: True},
        },
    }


def with_any_fields(schema: JSON) -> JSON:
    """Return a legacy schema that allows all fields (`AddPreserveUnknownFields`)."""
    new = dict(schema or {})
    kind = new.get("type") or ""
    if kind in ("", "object"):
        new[PRESERVE] = True
    elif kind == "array" and not new.get("items"):
        new["items"] = {PRESERVE: True}
    if "properties" in new:
        new["properties"] = {name: with_any_fields(part) for name, part in (new["properties"] or {}).items()}
    if isinstance(new.get("items"), dict):
        new["items"] = with_any_fields(new["items"])
    if isinstance(new.get("additionalProperties"), dict):
        new["additionalProperties"] = with_any_fields(new["additionalProperties"])
    return new


def untyped_field(
    schema: JSON, path: str = "spec.validation.openAPIV3Schema.properties[spec].properties[parameters]"
) -> str | None:
    """Return the error for the first field without a type, which a structural schema needs, or None."""
    if not isinstance(schema, dict):
        return None
    if not schema.get("type") and not schema.get(PRESERVE) and not schema.get("x-kubernetes-int-or-string"):
        return f"{path}.type: Required value: must not be empty for specified {'array items' if path.endswith('.items') else 'object fields'}"
    for name, part in sorted((schema.get("properties") or {}).items()):
        if found := untyped_field(part, f"{path}.properties[{name}]"):
            return found
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict) and (found := untyped_field(schema[key], f"{path}.{key}")):
            return found
    return None
