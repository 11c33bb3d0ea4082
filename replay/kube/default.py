"""The defaults of built-in kinds: those of the schemas, and those of the server's code only.

The API server defaults every object that it decodes, and again after each mutation. The code's part is in
`SetDefaults_*` of k8s.io/kubernetes/pkg/apis/<group>/<version>/defaults.go. Each function and table row here stands for
the one of the same type, with the feature gates of 1.37. Objects of CustomResourceDefinitions get defaults only from
their schema (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting).
"""

from __future__ import annotations

import re
from typing import Any

from replay.json import JSON
from replay.kube.attributes import PartialObject
from replay.kube.default_rules import FILLED, RULES
from replay.kube.go_object import counterparts
from replay.kube.quantity import parse_quantity
from replay.kube.schema import Schema

_NOTHING: dict[str, JSON] = {}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_CORE = "io.k8s.api.core.v1."
_FINE = re.compile(r"([+-]?)(\d+)(?:([nu])|e(-(?:[4-9]|\d\d)))")
"""A canonical quantity that may be finer than a thousandth."""


def set_defaults(schema: Schema, value: dict[str, JSON], old: JSON = None) -> None:  # noqa: C901 - a loop a step
    """Default an object in place, as it came from `round_trip` with the same `old`.

    Parts that are (by identity) parts of `old` are taken to be defaulted, and are never changed.
    """
    for field, default in FILLED.get(schema.name, {}).items():
        if value.get(field) in (None, ""):
            value[field] = default.copy() if isinstance(default, dict) else default
    rule = RULES.get(schema.name)
    if rule is not None:
        rule(value)
    old_fields = old if isinstance(old, dict) else _NOTHING
    for name, default in schema.written_defaults:
        if value.get(name) is None:
            value[name] = default
    for name, item in value.items():
        was = old_fields.get(name)
        if item is was:
            continue
        kind, declared = type(item), schema.fields[name]
        if kind is dict and type(was) is dict and _is_copy(item, was):
            value[name] = was  # a rule copied it but changed nothing
        elif kind is dict and declared.fields:
            set_defaults(declared, item, was)
        elif kind is dict or kind is list:
            value[name] = _with_defaults(declared, item, was, schema.name)


def _is_copy(value: dict[str, JSON], old: dict[str, JSON]) -> bool:
    """Return whether every part of a struct is the identical old part."""
    if len(value) != len(old):
        return False
    for name, inner in value.items():  # noqa: SIM110 - quicker than a generator
        if old.get(name, _NOTHING) is not inner:
            return False
    return True


def _with_defaults(schema: Schema, value: JSON, old: JSON, owner: str) -> JSON:
    """Return a list or map in the struct `owner` with the defaults of its parts."""
    part = schema.items or schema.values
    if part is None:
        return value
    if isinstance(value, list):
        for item, old_item in zip(value, counterparts(value, old), strict=True) if part.fields or part.values else ():
            if type(item) is dict and item is not old_item:
                set_defaults(part, item, old_item)
    elif part.fields:
        for inner in value.values():
            set_defaults(part, inner)
    elif part.name == _QUANTITY and owner.startswith(_CORE):
        return {key: _rounded(amount) for key, amount in value.items()}
    return value


def _rounded(amount: str) -> str:
    """Apply `SetDefaults_ResourceList`: amounts are rounded away from zero to thousandths."""
    match = _FINE.fullmatch(amount)
    if match is None:
        return amount
    digits, exponent = match[2], int(match[4] or {"n": -9, "u": -6}[match[3]])
    milli = -(-int(digits) // 10 ** (-3 - exponent))
    return str(parse_quantity(f"{match[1]}{milli}{'e-3' if match[4] else 'm'}"))


def set_custom_defaults(schema: Schema, value: JSON) -> JSON:
    """Return an object of a custom kind with the defaults of its schema. Unchanged parts keep their identity.

    A default replaces a missing field, and null where the schema does not allow null.
    """
    if isinstance(value, list) and schema.items is not None:
        items = [set_custom_defaults(schema.items, item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if not isinstance(value, dict):
        return value
    changed = {
        name: field.default
        for name, field in schema.with_default.items()
        if value.get(name) is None and not (name in value and field.nullable)
    }
    for name, part in {**value, **changed}.items():
        field = schema.field(name)
        inner = part if field is None else set_custom_defaults(field, part)
        if inner is not part:
            changed[name] = inner
    return {**value, **changed} if changed else value


WRITTEN_UNTIL = 33
"""The last minor version whose Go types write a zero time."""


def with_creation_timestamps(value: Any) -> Any:
    """Return an object of a built-in kind, or a part of one, with null for each unset `creationTimestamp`.

    In built-in kinds, a field `metadata` is always object metadata: their own, or that of a pod, job or claim template.
    Unchanged parts are not copied.
    """
    if isinstance(value, PartialObject):
        return PartialObject(with_creation_timestamps(value.value), value.missing)
    if isinstance(value, list):
        items = [with_creation_timestamps(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    changed = {}
    for name, inner in value.items():
        new = with_creation_timestamps(inner)
        if name == "metadata" and isinstance(new, dict) and "creationTimestamp" not in new:
            new = {**new, "creationTimestamp": None}
        if new is not inner:
            changed[name] = new
    return {**value, **changed} if changed else value
