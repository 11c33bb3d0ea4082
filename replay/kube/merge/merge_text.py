"""Values in messages of a structured merge, as Go prints the wrappers of decoded JSON."""

from __future__ import annotations

from replay.go.format import float_text, quote
from replay.go.value import GoValue
from replay.json import JSON


def printed(value: JSON) -> str:
    """The value as Go's `%v` prints the wrapper that structured merge has around it."""
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
    """The value as Go's `%#v` prints it."""
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
    """The Go type of a decoded value."""
    names = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool"}
    return names.get(type(value)) or str(getattr(value, "go_type", type(value).__name__))
