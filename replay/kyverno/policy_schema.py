"""Schema errors of Kyverno's kinds: wrong types and unknown fields (`config/crds`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from replay.go.format import aggregate
from replay.go.time import GoTime
from replay.json import JSON
from replay.kube.custom_schema import problems, unknown_fields
from replay.kyverno.cel.webhook import CELPolicies
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.jmespath.library import kyverno_library
from replay.kyverno.rules.policy_check import deprecation, policy_refusal, policy_warnings
from replay.manifests.check import CheckedSet
from replay.manifests.engine_object import EngineDocument
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.lint.catalogue import KYVERNO_DEPRECATED
from replay.manifests.read.node import position_of

GROUPS = ("kyverno.io", "policies.kyverno.io")
_DATA = Path(__file__).with_name("data") / "schema.json"
_METADATA = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("name", "generateName", "namespace", "uid", "resourceVersion")},
        **{
            name: {"type": "object", "additionalProperties": {"type": "string"}, "nullable": True}
            for name in ("labels", "annotations")
        },
    },
}
_TEXT = {"type": "string"}
_CONDITIONS = {
    "type": "array",
    "items": {"type": "object", "properties": {"operator": _TEXT, "message": _TEXT}},
    "nullable": True,
}
_ANY_ALL = {"type": "object", "properties": {"any": _CONDITIONS, "all": _CONDITIONS}}


@cache
def _schemas() -> Mapping[str, JSON]:
    """Return the schemas by `GROUP/VERSION/KIND`."""
    data = json.loads(_DATA.read_text("utf-8"))
    shared: list[JSON] = []
    for part in data["shared"]:
        # A shared part refers only to earlier ones, so that one pass resolves them all.
        shared.append(_resolved(part, shared))
    return {name: _resolved(schema, shared) for name, schema in data["kinds"].items()}


def _resolved(node: JSON, shared: list[JSON]) -> JSON:
    if isinstance(node, list):
        return [_resolved(each, shared) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return shared[node["$ref"]]
    return {key: _resolved(value, shared) for key, value in node.items()}


def is_known_kind(obj: Mapping[str, Any]) -> bool:
    """Return whether some version of the object's kind has a schema."""
    group, _, _ = str(obj.get("apiVersion") or "").partition("/")
    return any(name.startswith(f"{group}/") and name.endswith(f"/{obj.get('kind')}") for name in _schemas())


def schema_refusal(obj: Mapping[str, Any]) -> str | None:
    """Return the API server's message if it refuses an object of Kyverno, otherwise None.

    Call it with an object `without_nulls`: a null counts as a value of the wrong type.
    """
    kind, api_version = str(obj.get("kind") or ""), str(obj.get("apiVersion") or "")
    schema = _schemas().get(f"{api_version}/{kind}")
    if schema is None:
        return f'no matches for kind "{kind}" in version "{api_version}"'
    if unknown := next(unknown_fields(schema, _without_server_fields(obj)), None):
        return f'strict decoding error: unknown field "{unknown}"'
    found = [*problems(_METADATA, obj.get("metadata") or {}, "metadata"), *problems(schema, obj)]
    if not found:
        found = list(_untyped_problems(obj))
    if not found:
        return None
    name = as_map(obj.get("metadata")).get("name")
    return f'{kind}.{api_version.partition("/")[0]} "{name}" is invalid: {aggregate(found)}'


def _without_server_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}


def without_nulls(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as Go decodes it: null becomes the zero value of a field, map entry or list item."""
    schema = _schemas().get(f"{obj.get('apiVersion')}/{obj.get('kind')}")
    made = dict(obj)
    if schema is not None:
        made |= _read(schema, _without_server_fields(obj))
    if isinstance(made.get("metadata"), dict):
        made["metadata"] = _read(_METADATA, made["metadata"])
    return made


def _read(schema: JSON, value: JSON) -> JSON:
    if not isinstance(schema, dict):
        return value
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [_zero(items) if each is None else _read(items, each) for each in value]
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    made = {}
    for name, each in value.items():
        if name in fields:
            if each is not None or "type" not in fields[name]:
                made[name] = _read(fields[name], each)
        elif isinstance(others, dict):
            made[name] = _zero(others) if each is None else _read(others, each)
        else:
            made[name] = each
    return made


def _zero(schema: JSON) -> JSON:
    match schema.get("type"):
        case "string":
            return ""
        case "object":
            return {}
        case "array":
            return []
    return None


def _untyped_problems(obj: Mapping[str, Any]) -> Iterator[str]:
    """Yield errors in fields that the schema leaves open but the Go types do not: conditions and nested loops."""
    for number, rule in enumerate(as_map(obj.get("spec")).get("rules") or ()):
        place = f"spec.rules[{number}]"
        yield from _condition_problems(rule.get("preconditions"), f"{place}.preconditions")
        validation, mutation = as_map(rule.get("validate")), as_map(rule.get("mutate"))
        yield from _condition_problems(
            as_map(validation.get("deny")).get("conditions"), f"{place}.validate.deny.conditions"
        )
        yield from _loop_problems(validation.get("foreach"), f"{place}.validate.foreach")
        yield from _loop_problems(mutation.get("foreach"), f"{place}.mutate.foreach")
        for index, target in enumerate(mutation.get("targets") or ()):
            yield from _condition_problems(
                target.get("preconditions"), f"{place}.mutate.targets[{index}].preconditions"
            )


def _loop_problems(loops: JSON, place: str) -> Iterator[str]:
    for number, loop in enumerate(loops or ()):
        own = f"{place}[{number}]"
        yield from _condition_problems(loop.get("preconditions"), f"{own}.preconditions")
        yield from _condition_problems(as_map(loop.get("deny")).get("conditions"), f"{own}.deny.conditions")
        inner = loop.get("foreach")
        if inner is None:
            continue
        kind = "validation" if ".validate." in place else "mutation"
        found = list(problems(_loop_schema(kind), inner, f"{own}.foreach"))
        yield from found or _loop_problems(inner, f"{own}.foreach")


def _condition_problems(value: JSON, place: str) -> Iterator[str]:
    """Yield errors in conditions. They are a list, or an object with `any` and `all`."""
    if value is not None:
        yield from problems(_CONDITIONS if isinstance(value, list) else _ANY_ALL, value, place)


@cache
def _loop_schema(kind: str) -> JSON:
    """Return the schema of a rule's loops. Nested loops have the same schema."""
    rule = _schemas()["kyverno.io/v1/ClusterPolicy"]["properties"]["spec"]["properties"]["rules"]["items"]
    field = "validate" if kind == "validation" else "mutate"
    return rule["properties"][field]["properties"]["foreach"]


# `replay check` for Kyverno's objects: refusals and warnings of the API server and of Kyverno's policy webhook.

_FIELD = re.compile(r"spec(?:\.\w+|\[\d+\])+")


def with_kyverno(checked: CheckedSet, silenced: Iterable[str] = ()) -> CheckedSet:
    """Return a checked set with the findings about its Kyverno objects."""
    documents = [each for each in checked.engine if is_known_kind(each.value)]
    return checked.with_findings((finding for document in documents for finding in _findings(document)), silenced)


def _findings(document: EngineDocument) -> Iterator[Finding]:
    value = without_nulls(document.value)
    refusal = schema_refusal(value)
    if refusal is not None:
        yield _finding(document, Severity.ERROR, SERVER, refusal)
        return
    if value.get("kind") in ("ClusterPolicy", "Policy") and str(value["apiVersion"]).startswith("kyverno.io/"):
        refusal = policy_refusal(value, kyverno_library(lambda: GoTime(0), ImageDefaults()))
        if refusal is not None:
            yield _finding(document, Severity.ERROR, SERVER, refusal)
        for field, warning in policy_warnings(value):
            yield _finding(document, Severity.WARNING, KYVERNO_DEPRECATED, warning, field)
    elif str(value["apiVersion"]).startswith("kyverno.io/"):
        if text := deprecation(str(value.get("kind"))):
            yield _finding(document, Severity.WARNING, KYVERNO_DEPRECATED, text, "kind")
    else:
        for refused in CELPolicies([value]).refused:
            yield _finding(document, Severity.ERROR, SERVER, refused)


def _finding(document: EngineDocument, severity: Severity, name: str, message: str, field: str = "") -> Finding:
    found = _FIELD.search(message)
    path = field or ("" if found is None else found[0])
    metadata = document.value.get("metadata")
    own = metadata.get("name") if isinstance(metadata, dict) else ""
    return Finding(
        severity,
        name,
        message,
        document.path,
        position_of(document.node, path),
        path,
        f"{document.value.get('kind')}/{own or ''}",
        first=severity is Severity.ERROR,
    )
