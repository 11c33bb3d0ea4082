"""Values as tagged JSON, the notation of results in files: `{"int":"3"}`, `{"list":[...]}`, ..."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from replay.cel.value.equality import elements, find, is_list, is_map, map_keys
from replay.cel.value.timestamp import NANOS, Duration, Timestamp
from replay.cel.value.values import EvalError, ObjectValue, OpaqueValue, OptionalValue, TypeValue, Uint, Value
from replay.cellib.variables import VariableValues
from replay.go.format import general, quote, shortest_digits, sign_of


def tagged(value: Value) -> Any:
    """Return the tagged JSON of a CEL value. Map entries are sorted by the JSON of their keys.

    The variables of a policy inside themselves are a `cycle`. Raises `RecursionError` for a value that is nested too
    deeply.
    """
    return _tagged(value, frozenset())


def _tagged(value: Value, around: frozenset[int]) -> Any:  # noqa: C901, PLR0911, PLR0912 - one branch a kind
    """Return the tagged JSON. `around` holds the ids of the enclosing variable maps."""
    match value:
        case None:
            return {"null": True}
        # `bool` and `Uint` are subclasses of `int`, so they come before it.
        case bool():
            return {"bool": value}
        case Uint():
            return {"uint": str(int(value))}
        case int():
            return {"int": str(value)}
        case float():
            return {"double": double_text(value)}
        case str():
            return _string(value)
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case Timestamp():
            return {"timestamp": value.text(0)}
        case Duration():
            return {"duration": seconds_text(value.nanos)}
        case TypeValue():
            return {"type": value.name}
        case OptionalValue():
            return {"optional": _tagged(value.value, around) if value.has_value else None}
        case ObjectValue():
            fields = [[name, _tagged(item, around)] for name, item in sorted(value.fields.items())]
            return {"object": {"type": value.type_name, "fields": fields}}
        case EvalError():
            return {"err": value.message}
    if isinstance(value, OpaqueValue) and not isinstance(value, VariableValues):
        return _opaque(value)
    if is_list(value):
        return {"list": [_tagged(item, around) for item in elements(value)]}
    assert is_map(value)
    if isinstance(value, VariableValues):
        if id(value) in around:
            return {"cycle": True}
        around |= {id(value)}
    entries = [[_tagged(key, around), _tagged(find(value, key)[1], around)] for key in map_keys(value)]
    return {"map": sorted(entries, key=lambda entry: json.dumps(entry[0]))}


def shown(value: Value) -> str:  # noqa: C901, PLR0911 - one branch a kind
    """Return a value for people, written as in CEL: `["a", 1u, duration("1.5s")]`."""
    match value:
        case str():
            return quote(value)
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case Uint():
            return f"{int(value)}u"
        case float():
            text = double_text(value)
            return text if not text.lstrip("-").isdigit() else f"{text}.0"
        case bytes():
            return 'b"' + "".join(f"\\{byte:03o}" for byte in value) + '"'
        case Timestamp():
            return f'timestamp("{value.text(0)}")'
        case Duration():
            return f'duration("{seconds_text(value.nanos)}")'
        case OptionalValue():
            return f"optional.of({shown(value.value)})" if value.has_value else "optional.none()"
        case ObjectValue():
            fields = ", ".join(f"{name}: {shown(item)}" for name, item in value.fields.items())
            return f"{value.type_name}{{{fields}}}"
    if is_list(value):
        return f"[{', '.join(map(shown, elements(value)))}]"
    if is_map(value) and not isinstance(value, VariableValues):
        entries = (f"{shown(key)}: {shown(find(value, key)[1])}" for key in map_keys(value))
        return f"{{{', '.join(entries)}}}"
    ((tag, text),) = tagged(value).items()
    return str(text) if tag in ("int", "type", "err") else f"{tag}({quote(str(text))})"


def _string(value: str) -> Any:
    """Return a text. Bytes that are not UTF-8 (`surrogateescape`) make it Base64."""
    if value.isascii() or not any("\udc80" <= char <= "\udcff" for char in value):
        return {"string": value}
    return {"string_base64": base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()}


_SHOWN = {
    "kubernetes.Quantity": "quantity",
    "net.IP": "ip",
    "net.CIDR": "cidr",
    "kubernetes.URL": "url",
    "kubernetes.Semver": "semver",
    "kubernetes.NamedFormat": "format",
}


def _opaque(value: OpaqueValue) -> Any:
    name = value.cel_type.name
    tag = _SHOWN.get(name)
    return {tag: str(value)} if tag is not None else {"opaque": name}


def double_text(value: float) -> str:
    """Return the shortest decimal that reads back, or `NaN`, `Infinity`, `-Infinity`, `-0`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return sign_of(value) + general(*shortest_digits(value), precision=21)


def seconds_text(nanos: int) -> str:
    """Return a duration in decimal seconds, exact to the nanosecond."""
    integer, rest = divmod(abs(nanos), NANOS)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if nanos < 0 else ''}{integer}{fraction}s"
