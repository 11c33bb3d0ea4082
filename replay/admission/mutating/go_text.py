"""Text that Go's `fmt` prints for a typed object: `%v` and `%#v` of structs, maps and slices of Kubernetes' API types.

Structs print their fields in the order of declaration, which no schema has. The order is listed here for the types in
parameters, `request` and `namespaceObject`. Other structs print in the order of the object, because their source is not
known here. Pointers print as addresses, which differ on every server.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from replay.go.format import float_text, quote
from replay.json import JSON
from replay.kube.go_object import go_type_name
from replay.kube.quantity import DECIMAL_SUFFIXES
from replay.kube.schema import Schema

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_AMOUNT = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?")
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_NIL, _TEXT, _ZERO, _EMPTY_MAP, _EMPTY_LIST, _TIME = "<nil>", "", "0", "map[]", "[]", "0001-01-01 00:00:00 +0000 UTC"

_FIELDS: Mapping[str, Mapping[str, str]] = {
    _META + "ObjectMeta": {
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "generation": _ZERO,
        "creationTimestamp": _TIME,
        "deletionTimestamp": _NIL,
        "deletionGracePeriodSeconds": _NIL,
        "labels": _EMPTY_MAP,
        "annotations": _EMPTY_MAP,
        "ownerReferences": _EMPTY_LIST,
        "finalizers": _EMPTY_LIST,
        "managedFields": _EMPTY_LIST,
    },
    "io.k8s.api.authentication.v1.UserInfo": {
        "username": _TEXT,
        "uid": _TEXT,
        "groups": _EMPTY_LIST,
        "extra": _EMPTY_MAP,
    },
    "io.k8s.api.core.v1.NamespaceSpec": {"finalizers": _EMPTY_LIST},
    "io.k8s.api.core.v1.NamespaceStatus": {"phase": _TEXT, "conditions": _EMPTY_LIST},
    "io.k8s.api.core.v1.ConfigMap": {
        "metadata": "",
        "immutable": _NIL,
        "data": _EMPTY_MAP,
        "binaryData": _EMPTY_MAP,
    },
    "io.k8s.api.core.v1.Secret": {
        "metadata": "",
        "immutable": _NIL,
        "data": _EMPTY_MAP,
        "stringData": _EMPTY_MAP,
        "type": _TEXT,
    },
}
"""Fields of structs in the order of declaration, with the text for an unset field."""

_STRINGERS: Mapping[str, str] = {
    _META + "GroupVersionKind": "{group}/{version}, Kind={kind}",
    _META + "GroupVersionResource": "{group}/{version}, Resource={resource}",
}
"""Structs with a `String` method."""


def go_text(schema: Schema | None, value: JSON) -> str:
    """Return `%v` of a value of a Go type."""
    if value is None:
        return _NIL
    if isinstance(value, dict):
        return _map_text(schema, value) if schema is None or not schema.fields else _struct_text(schema, value)
    if isinstance(value, list):
        return "[" + " ".join(go_text(schema and schema.items, item) for item in value) + "]"
    if isinstance(value, str):
        return value if schema is None else _text(schema, value)
    if isinstance(value, bool):
        return str(value).lower()
    return float_text(value) if isinstance(value, float) else str(value)


def _text(schema: Schema, value: str) -> str:
    """Return `%v` of a value that JSON writes as a string."""
    if schema.name in {_META + "Time", _META + "MicroTime"}:
        return f"{value[:10]} {value[11:].rstrip('Z')} +0000 UTC"
    if schema.name == _QUANTITY:
        amount, scale, form = _quantity(value)
        # `%v` shows the unexported fields: the amount, the unused `inf.Dec`, the cached text and the format.
        return f"{{{{{amount} {scale}}} {{<nil>}} {value} {form}}}"
    if schema.format == "byte":
        return f"[{' '.join(map(str, base64.b64decode(value)))}]"
    return value


def _map_text(schema: Schema | None, value: dict[str, JSON]) -> str:
    values = schema and schema.values
    # `fmt` prints a map in the order of its keys.
    return "map[" + " ".join(f"{name}:{go_text(values, value[name])}" for name in sorted(value)) + "]"


def _struct_text(schema: Schema, value: dict[str, JSON]) -> str:
    if schema.name in _STRINGERS:
        return _STRINGERS[schema.name].format(**value)
    declared = _FIELDS.get(schema.name)
    if declared is None:
        return "{" + " ".join(go_text(schema.field(name), item) for name, item in value.items()) + "}"
    shown = [go_text(schema.field(name), value[name]) if name in value else zero for name, zero in declared.items()]
    # A whole object begins with the TypeMeta that it embeds, empty in what comes from a cache.
    return "{" + " ".join(["{ }", *shown] if "metadata" in declared else shown) + "}"


def _quantity(text: str) -> tuple[int, int, str]:
    """Return the amount, decimal scale and format of a canonical quantity, as `resource.Quantity` holds them."""
    match = _AMOUNT.fullmatch(text)
    assert match is not None, "quantities are written in their canonical form"
    number, suffix, exponent = match[1], match[2], match[3]
    integer, _, fraction = number.partition(".")
    if suffix in _BINARY:
        return int(integer) * 1024 ** (_BINARY.index(suffix) + 1), 0, "BinarySI"
    if exponent:
        return int(integer + fraction), int(exponent) - len(fraction), "DecimalExponent"
    return int(integer + fraction), DECIMAL_SUFFIXES[suffix or ""] - len(fraction), "DecimalSI"


def go_syntax(schema: Schema | None, value: JSON) -> str:
    """Return `%#v` of a map or slice of a Go type; of a struct, the result of `go_text`."""
    name = "interface {}" if schema is None else go_type_name(schema)
    if isinstance(value, dict) and not (schema and schema.fields):
        values = schema and schema.values
        return f"{name}{{{', '.join(f'{quote(key)}:{go_syntax(values, value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"{name}{{{', '.join(go_syntax(schema and schema.items, item) for item in value)}}}"
    if isinstance(value, str):
        return quote(value) if schema is None else _text_syntax(schema, value)
    return go_text(schema, value)


def _text_syntax(schema: Schema, value: str) -> str:
    """Return `%#v` of a value that JSON writes as a string."""
    if schema.name == _QUANTITY:
        amount, scale, form = _quantity(value)
        held = (
            f"i:resource.int64Amount{{value:{amount}, scale:{scale}}}, d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}"
        )
        return f"resource.Quantity{{{held}, s:{quote(value)}, Format:{quote(form)}}}"
    if schema.format == "byte":
        return f"[]uint8{{{', '.join(map(hex, base64.b64decode(value)))}}}"
    return quote(value)
