"""The defaults of built-in kinds: those that the schemas state, and those that only the server's code states.

The API server defaults every object that it decodes, and once more after each mutation. The code's part is in
`SetDefaults_*` of k8s.io/kubernetes/pkg/apis/<group>/<version>/defaults.go; each function and table row here stands for the
one of the same type, with the feature gates of 1.37. Objects of CustomResourceDefinitions are defaulted by their schema
alone (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting).
"""

from __future__ import annotations

import re

from replay.kube.attributes import JSON
from replay.kube.default_rules import FILLED, RULES
from replay.kube.go_object import counterparts
from replay.kube.quantity import parse_quantity
from replay.kube.schema import Encoding, Schema

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_CORE = "io.k8s.api.core.v1."
_FINE = re.compile(r"([+-]?)(\d+)(?:([nu])|e(-(?:[4-9]|\d\d)))")
"""A canonical quantity that may be finer than a thousandth."""


def set_defaults(schema: Schema, value: dict[str, JSON], before: JSON = None) -> None:
    """Default an object in place, as it came from `round_trip` with the same `before`.

    Parts that are (by identity) parts of `before` are taken to be defaulted, and are never changed.
    """
    for field, default in FILLED.get(schema.name, {}).items():
        if value.get(field) in (None, ""):
            value[field] = default.copy() if isinstance(default, dict) else default
    rule = RULES.get(schema.name)
    if rule is not None:
        rule(value)
    known = before if isinstance(before, dict) else {}
    for name, field_schema in schema.with_default.items():
        if value.get(name) is None:
            _fill(value, name, field_schema)
    for name, given in value.items():
        if isinstance(given, dict | list) and given is not known.get(name):
            _descend(schema.fields[name], value, name, known.get(name), schema.name)


def _fill(value: dict[str, JSON], name: str, schema: Schema) -> None:
    """The default that the schema states; `{}` and zero stand for what the Go type writes anyway."""
    default = schema.default
    if default is None or default == {}:
        return
    if schema.encoding in {Encoding.POINTER, Encoding.NULL} or default not in ("", 0, False):
        value[name] = default


def _descend(schema: Schema, parent: dict[str, JSON], name: str, before: JSON, owner: str) -> None:
    value = parent[name]
    if isinstance(value, list):
        items = schema.items
        if items is None or not (items.fields or items.values):
            return
        for item, known in zip(value, counterparts(value, before), strict=True):
            if isinstance(item, dict) and item is not known:
                set_defaults(items, item, known)
    elif schema.fields:
        set_defaults(schema, value, before)
    elif schema.values is not None:
        if schema.values.name == _QUANTITY and owner.startswith(_CORE):
            parent[name] = {key: _rounded(amount) for key, amount in value.items()}
        elif schema.values.fields:
            for inner in value.values():
                set_defaults(schema.values, inner)


def _rounded(amount: str) -> str:
    """`SetDefaults_ResourceList`: nothing is finer than a thousandth; what is more rounds away from zero."""
    match = _FINE.fullmatch(amount)
    if match is None:
        return amount
    digits, exponent = match[2], int(match[4] or {"n": -9, "u": -6}[match[3]])
    milli = -(-int(digits) // 10 ** (-3 - exponent))
    return str(parse_quantity(f"{match[1]}{milli}{'e-3' if match[4] else 'm'}"))


def set_custom_defaults(schema: Schema, value: JSON) -> JSON:
    """An object of a custom kind with the defaults of its schema; what is unchanged is the same object.

    A default replaces a missing field, and null where the schema does not allow null.
    """
    if isinstance(value, list) and schema.items is not None:
        items = [set_custom_defaults(schema.items, item) for item in value]
        return value if _same(items, value) else items
    if not isinstance(value, dict):
        return value
    changed = {
        name: field.default
        for name, field in schema.with_default.items()
        if value.get(name) is None and not (name in value and field.nullable)
    }
    for name, given in {**value, **changed}.items():
        field = schema.field(name)
        inner = given if field is None else set_custom_defaults(field, given)
        if inner is not given:
            changed[name] = inner
    return {**value, **changed} if changed else value


def _same(one: list[JSON], other: list[JSON]) -> bool:
    return all(a is b for a, b in zip(one, other, strict=True))
