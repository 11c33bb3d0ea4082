"""Keys of items in a list map or set during a structured merge, and their texts in paths.

The rules are those of `typed/helpers.go` and `value/value.go` of sigs.k8s.io/structured-merge-diff/v6.
"""

from __future__ import annotations

from typing import Any

from replay.go.format import GoValue, float_text, quote
from replay.json import JSON
from replay.kube.merge.atom import ListAtom


class _Undefined:
    def __str__(self) -> str:
        return "{{undefined}}"


_UNDEFINED = _Undefined()
"""Placeholder for a value of an unknown Go type in a key (structured-merge-diff `value.Compare`, `value.ToString`)."""


class MergeError(Exception):
    """The apply configuration cannot be merged. `str()` is the server's text."""


def item_key(atom: ListAtom, item: JSON) -> tuple[Any, ...]:
    """Return the hashable key of a list map's or set's item. Raise `MergeError` if it has none."""
    if not atom.keys:
        return ("", _set_key(item))
    if item is None:
        raise MergeError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise MergeError("associative list with keys may not have non-map elements")
    key = []
    for name in sorted(atom.keys):
        if name in item:
            value = item[name]
            key.append((name, value if type(value) is str else _comparable(value)))
        elif atom.element.map is not None and name in atom.element.map.defaults:
            key.append((name, _comparable(atom.element.map.defaults[name])))
    if not key:
        names = " ".join(map(quote, atom.keys))
        raise MergeError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return tuple(key)


def _set_key(item: JSON) -> Any:
    if isinstance(item, dict):
        raise MergeError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise MergeError("not supported: associative list with lists as elements")
    if item is None:
        raise MergeError("associative list without keys has an element that's an explicit null")
    return _comparable(item)


def _comparable(value: JSON) -> Any:
    """Return a hashable value that is equal where the server's are: 1 and 1.0 are, `true` and 1 are not."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return ("map", tuple(sorted((name, _comparable(inner)) for name, inner in value.items())))
    if isinstance(value, list):
        return ("list", tuple(map(_comparable, value)))
    return _UNDEFINED if isinstance(value, GoValue) else value


def element_text(key: tuple[Any, ...]) -> str:
    """Return an item's key as in a path."""
    if key[0] == "":
        return f"[={_value_text(key[1])}]"
    return "[" + ",".join(f"{name}={_value_text(value)}" for name, value in key) + "]"


def _value_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple):
        kind, inner = value
        if kind == "bool":
            return str(inner).lower()
        if kind == "list":
            return "[" + ",".join(map(_value_text, inner)) + "]"
        return "".join(f"{name}={_value_text(part)}" for name, part in inner)
    if isinstance(value, str):
        return quote(value)
    return float_text(value) if isinstance(value, float) else str(value)


def printed(value: JSON) -> str:
    """Return the value as Go's `%v` prints the wrapper that structured merge puts around it."""
    return f"&{{{_plain(value)}}}"


def _plain(value: JSON) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_plain(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_plain, value)) + "]"
    return float_text(value) if isinstance(value, float) else str(value)


def value_syntax(value: JSON) -> str:
    """Return the value as Go's `%#v` prints it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{quote(name)}:{value_syntax(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(value_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, GoValue):
        return _go_value_syntax(value)
    return quote(value) if isinstance(value, str) else _plain(value)


def _go_value_syntax(value: GoValue) -> str:
    if value.go_type == "uint64":
        return hex(int(value.text))
    if value.go_type == "[]uint8":
        return "[]uint8{" + ", ".join(f"0x{int(byte):x}" for byte in value.text[1:-1].split()) + "}"
    return str(value.json) if isinstance(value.json, int) else value.syntax or value.text


def go_type_of(value: JSON) -> str:
    """Return the Go type of a decoded value."""
    names = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool"}
    return names.get(type(value)) or str(getattr(value, "go_type", type(value).__name__))
