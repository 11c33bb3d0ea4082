"""The schema of a template's parameters: types, unknown fields and defaults (`apiextensions-apiserver/pkg/apiserver`, `constraint/pkg/client/crds`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from replay.go.format import marshal, quote
from replay.json import JSON

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
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool}
_GO_TYPES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
}


def constraint_schema(parameters: JSON) -> dict[str, Any]:
    """The schema of a kind of constraints (`crds.CreateSchema`); None for parameters means that there are none."""
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
            "status": {_PRESERVE: True},
        },
    }


def with_any_fields(schema: JSON) -> JSON:
    """A legacy schema, in which all fields may stand (`AddPreserveUnknownFields`)."""
    new = dict(schema or {})
    kind = new.get("type") or ""
    if kind in ("", "object"):
        new[_PRESERVE] = True
    elif kind == "array" and not new.get("items"):
        new["items"] = {_PRESERVE: True}
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
    """The first field that has no type, which no structural schema may have."""
    if not isinstance(schema, dict):
        return None
    if not schema.get("type") and not schema.get(_PRESERVE) and not schema.get("x-kubernetes-int-or-string"):
        return f"{path}.type: Required value: must not be empty for specified {'array items' if path.endswith('.items') else 'object fields'}"
    for name, part in sorted((schema.get("properties") or {}).items()):
        if found := untyped_field(part, f"{path}.properties[{name}]"):
            return found
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict) and (found := untyped_field(schema[key], f"{path}.{key}")):
            return found
    return None


def problems(schema: JSON, value: JSON, path: str = "") -> Iterator[str]:
    """How a value breaks a schema, as the API server says it."""
    if not isinstance(schema, dict):
        return
    if value is None:
        if not schema.get("nullable") and schema.get("type"):
            yield f'{path}: Invalid value: "null": {path} in body must be of type {schema["type"]}: "null"'
        return
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield _of_type(path, value, "integer,string")
        return
    kind = schema.get("type")
    if kind and not _is_of_type(value, kind):
        yield _of_type(path, value, kind)
        return
    yield from _limits(schema, value, path)
    if isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name in schema.get("required") or ():
            if name not in value:
                yield f"{path}.{name}: Required value" if path else f"{name}: Required value"
        for name in sorted(value):
            part = fields.get(name, others if isinstance(others, dict) else None)
            yield from problems(part, value[name], f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from problems(schema.get("items"), item, f"{path}[{place}]")


def _is_of_type(value: JSON, kind: str) -> bool:
    if kind in ("integer", "number"):
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and (kind == "number" or value == int(value))
        )
    return isinstance(value, _TYPES.get(kind, object))


def _of_type(path: str, value: JSON, kind: str) -> str:
    found = _GO_TYPES.get(type(value), "object")
    return f'{path}: Invalid value: "{found}": {path} in body must be of type {kind}: "{found}"'


def _limits(schema: JSON, value: JSON, path: str) -> Iterator[str]:
    shown = quote(value) if isinstance(value, str) else marshal(value)
    if (choices := schema.get("enum")) is not None and value not in choices:
        listed = ", ".join(quote(item) if isinstance(item, str) else marshal(item) for item in choices)
        yield f"{path}: Unsupported value: {shown}: supported values: {listed}"
    if isinstance(value, str):
        pattern = schema.get("pattern")
        if pattern and not re.search(pattern, value):
            yield f"{path}: Invalid value: {shown}: {path} in body should match '{pattern}'"
        if (most := schema.get("maxLength")) is not None and len(value) > most:
            yield f"{path}: Too long: may not be more than {most} bytes"
        if (least := schema.get("minLength")) is not None and len(value) < least:
            yield f"{path}: Invalid value: {shown}: {path} in body should be at least {least} chars long"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if (most := schema.get("maximum")) is not None and (
            value >= most if schema.get("exclusiveMaximum") else value > most
        ):
            yield f"{path}: Invalid value: {shown}: {path} in body should be less than or equal to {most}"
        if (least := schema.get("minimum")) is not None and (
            value <= least if schema.get("exclusiveMinimum") else value < least
        ):
            yield f"{path}: Invalid value: {shown}: {path} in body should be greater than or equal to {least}"
    elif isinstance(value, list):
        if (most := schema.get("maxItems")) is not None and len(value) > most:
            yield f"{path}: Too many: {len(value)}: must have at most {most} items"
        if (least := schema.get("minItems")) is not None and len(value) < least:
            yield f"{path}: Invalid value: {len(value)}: {path} in body should have at least {least} items"


def unknown_fields(schema: JSON, value: JSON, path: str = "", *, is_root: bool = False) -> Iterator[str]:
    """The fields that a schema does not have (`structuralpruning.Prune`)."""
    if not isinstance(schema, dict) or (schema.get(_PRESERVE) and not schema.get("properties")):
        return
    if isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name in sorted(value):
            at = f"{path}.{name}" if path else name
            if is_root and name in ("apiVersion", "kind", "metadata"):
                continue
            if name in fields:
                yield from unknown_fields(fields[name], value[name], at)
            elif isinstance(others, dict):
                yield from unknown_fields(others, value[name], at)
            elif not others and not schema.get(_PRESERVE):
                yield at
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for place, item in enumerate(value):
            yield from unknown_fields(schema["items"], item, f"{path}[{place}]")


def pruned(schema: JSON, value: JSON, *, is_root: bool = False) -> JSON:
    """A value without the fields that its schema does not have, as the API server keeps it."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        kept = {}
        for name, item in value.items():
            if is_root and name in ("apiVersion", "kind", "metadata"):
                kept[name] = item
            elif name in fields:
                kept[name] = pruned(fields[name], item)
            elif isinstance(others, dict):
                kept[name] = pruned(others, item)
            elif others or schema.get(_PRESERVE):
                kept[name] = item
        return kept
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [pruned(schema["items"], item) for item in value]
    return value


def defaulted(schema: JSON, value: JSON) -> JSON:
    """A value with the defaults of its schema; a default stands for a field that is missing, or null where that is not allowed."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        new = dict(value)
        for name, part in fields.items():
            if (
                isinstance(part, dict)
                and part.get("default") is not None
                and new.get(name) is None
                and not (name in new and part.get("nullable"))
            ):
                new[name] = part["default"]
        for name, item in new.items():
            new[name] = defaulted(fields.get(name, others if isinstance(others, dict) else None), item)
        return new
    if isinstance(value, list):
        return [defaulted(schema.get("items"), item) for item in value]
    return value
