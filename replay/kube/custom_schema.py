"""Schemas of custom resources: violations, unknown fields and defaults (`apiextensions-apiserver/pkg/apiserver`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.go.format import marshal, quote
from replay.json import JSON

_DEEPEST = 200
"""The greatest depth of a schema here. Real ones stay far below."""
PRESERVE = "x-kubernetes-preserve-unknown-fields"
_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool}
_GO_TYPES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def is_definition(obj: JSON) -> bool:
    """Return whether an object is a CustomResourceDefinition whose parts have the types that the API requires."""
    spec = obj.get("spec") if isinstance(obj, dict) and obj.get("kind") == "CustomResourceDefinition" else None
    if not (isinstance(spec, dict) and isinstance(spec.get("names"), dict) and isinstance(spec.get("versions"), list)):
        return False
    texts = (spec.get("group"), spec["names"].get("kind"), spec["names"].get("plural"))
    return all(isinstance(text, str) for text in texts) and all(map(_is_version, spec["versions"]))


def _is_version(version: JSON) -> bool:
    if not (isinstance(version, dict) and isinstance(version.get("name"), str)):
        return False
    schema, subresources = version.get("schema") or {}, version.get("subresources") or {}
    if not (isinstance(schema, dict) and isinstance(subresources, dict)):
        return False
    return "openAPIV3Schema" not in schema or _is_node(schema["openAPIV3Schema"])


def _is_node(node: JSON, depth: int = 0) -> bool:
    """Return whether a schema and all schemas in it can be read. The rules on values are not checked here."""
    if not isinstance(node, dict) or "$ref" in node or depth > _DEEPEST:
        return False
    required, fields, additional = (
        node.get("required", []),
        node.get("properties", {}),
        node.get("additionalProperties"),
    )
    if not (isinstance(required, list) and isinstance(fields, dict)):
        return False
    inner = [*fields.values(), *([node["items"]] if "items" in node else [])]
    inner += [] if additional is None or isinstance(additional, bool) else [additional]
    texts = (node.get("type", ""), node.get("format", ""), *required)
    return all(isinstance(text, str) for text in texts) and all(_is_node(each, depth + 1) for each in inner)


def problems(schema: JSON, value: JSON, path: str = "") -> Iterator[str]:
    """Yield the violations of a value against its schema, in the words of the API server."""
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if value is None:
        if not schema.get("nullable") and kind:
            yield f'{path}: Invalid value: "null": {path} in body must be of type {kind}: "null"'
        return
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, str) and not _is_of_type(value, "integer"):
            yield _of_type(path, value, "integer,string")
        return
    if kind and not _is_of_type(value, kind):
        yield _of_type(path, value, kind)
        return
    yield from _limits(schema, value, path)
    if isinstance(value, dict):
        yield from _alternatives(schema, value, path)
        yield from _field_problems(schema, value, path)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from problems(schema.get("items"), item, f"{path}[{place}]")


def _field_problems(schema: JSON, value: dict[str, JSON], path: str) -> Iterator[str]:
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{path}.{name}: Required value" if path else f"{name}: Required value"
    for name in sorted(value):
        part = fields.get(name, others if isinstance(others, dict) else None)
        yield from problems(part, value[name], f"{path}.{name}" if path else name)


def _alternatives(schema: JSON, value: dict[str, JSON], path: str) -> Iterator[str]:
    """Yield the violations of `oneOf` and `not`, as far as they exclude fields."""
    if choices := schema.get("oneOf"):
        fitting = sum(all(name in value for name in choice.get("required") or ()) for choice in choices)
        if fitting != 1:
            found = "Found none valid" if not fitting else f"Found {fitting} valid alternatives"
            yield f'<nil>: Invalid value: "": "{path}" must validate one and only one schema (oneOf). {found}'
    excluded = (schema.get("not") or {}).get("required") or ()
    if excluded and all(name in value for name in excluded):
        yield f'<nil>: Invalid value: "": "{path}" must not validate the schema (not)'


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
    if (choices := schema.get("enum")) is not None and value not in choices:
        listed = ", ".join(map(_value_text, choices))
        yield f"{path}: Unsupported value: {_value_text(value)}: supported values: {listed}"
    if isinstance(value, str):
        yield from _text_limits(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_limits(schema, value, path)
    elif isinstance(value, list):
        if (most := schema.get("maxItems")) is not None and len(value) > most:
            yield f"{path}: Too many: {len(value)}: must have at most {most} item{'' if most == 1 else 's'}"
        if (least := schema.get("minItems")) is not None and len(value) < least:
            yield f"{path}: Invalid value: {len(value)}: {path} in body should have at least {least} items"


def _value_text(value: JSON) -> str:
    return quote(value) if isinstance(value, str) else marshal(value)


def _text_limits(schema: JSON, value: str, path: str) -> Iterator[str]:
    pattern = schema.get("pattern")
    if pattern and not re.search(pattern, value):
        yield f"{path}: Invalid value: {quote(value)}: {path} in body should match '{pattern}'"
    if (most := schema.get("maxLength")) is not None and len(value) > most:
        yield f"{path}: Too long: may not be more than {most} bytes"
    if (least := schema.get("minLength")) is not None and len(value) < least:
        yield f"{path}: Invalid value: {quote(value)}: {path} in body should be at least {least} chars long"


def _number_limits(schema: JSON, value: float, path: str) -> Iterator[str]:
    if (most := schema.get("maximum")) is not None and (
        value >= most if schema.get("exclusiveMaximum") else value > most
    ):
        yield f"{path}: Invalid value: {marshal(value)}: {path} in body should be less than or equal to {most}"
    if (least := schema.get("minimum")) is not None and (
        value <= least if schema.get("exclusiveMinimum") else value < least
    ):
        yield f"{path}: Invalid value: {marshal(value)}: {path} in body should be greater than or equal to {least}"


def unknown_fields(schema: JSON, value: JSON, path: str = "", *, is_root: bool = False) -> Iterator[str]:
    """Yield the paths of fields that a schema lacks (`structuralpruning.Prune`)."""
    if not isinstance(schema, dict) or (schema.get(PRESERVE) and not schema.get("properties")):
        return
    if isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name in sorted(value):
            at = f"{path}.{name}" if path else name
            # The API server checks these fields of every object itself, whatever the schema declares.
            if is_root and name in ("apiVersion", "kind", "metadata"):
                continue
            if name in fields:
                yield from unknown_fields(fields[name], value[name], at)
            elif isinstance(others, dict):
                yield from unknown_fields(others, value[name], at)
            elif not others and not schema.get(PRESERVE):
                yield at
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for place, item in enumerate(value):
            yield from unknown_fields(schema["items"], item, f"{path}[{place}]")


def pruned(schema: JSON, value: JSON, *, is_root: bool = False) -> JSON:
    """Return a value without the fields that its schema lacks, as the API server stores it."""
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
            elif others or schema.get(PRESERVE):
                kept[name] = item
        return kept
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [pruned(schema["items"], item) for item in value]
    return value


def defaulted(schema: JSON, value: JSON) -> JSON:
    """Return a value with its schema's defaults.

    A default replaces a missing field, and null where null is not allowed.
    """
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
