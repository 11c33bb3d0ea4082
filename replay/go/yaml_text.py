"""Maps of texts as Go writes them to YAML (go.yaml.in/yaml/v3, indent 2, lines of any length)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cmp_to_key

_RESOLVED = re.compile(
    r"~|null|Null|NULL|true|True|TRUE|false|False|FALSE|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|<<"
    r"|y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF"
    r"|[-+]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]+|[0-9][0-9_]*)"
    r"|[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?",
    re.ASCII | re.DOTALL,
)
"""Plain scalars that are not strings in YAML 1.2 or 1.1."""
_INDICATORS = frozenset("#,[]{}&*!|>'\"%@`")
_BREAK = re.compile("[\n\r\x85\u2028\u2029]")
_UNPRINTABLE = re.compile("[^\t\n\x85\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_SPECIAL = re.compile(f"{_UNPRINTABLE.pattern}| {_BREAK.pattern}")
_ESCAPES = {
    "\0": "0",
    "\a": "a",
    "\b": "b",
    "\t": "t",
    "\n": "n",
    "\v": "v",
    "\f": "f",
    "\r": "r",
    "\x1b": "e",
    '"': '"',
    "\\": "\\",
    "\x85": "N",
    "\xa0": "_",
    "\u2028": "L",
    "\u2029": "P",
}
_LONGEST_SIMPLE_KEY = 128
Texts = Mapping[str, "str | Texts"]


def yaml_text(texts: Texts, indent: int = 0) -> str:
    """Return a map of texts, or of such maps, with its keys in natural order."""
    pad, lines = " " * indent, []
    for key in sorted(texts, key=cmp_to_key(_natural_order)):
        value = texts[key]
        shown = _scalar(key, indent + 2, is_key=True)
        prefix = f"{pad}{shown}:" if len(key.encode()) <= _LONGEST_SIMPLE_KEY else f"{pad}? {shown}\n{pad}:"
        if isinstance(value, Mapping):
            lines.append(f"{prefix}\n{yaml_text(value, indent + 2)}" if value else f"{prefix} {{}}\n")
        else:
            lines.append(f"{prefix} {_scalar(value, indent + 2)}\n")
    return "".join(lines)


def _natural_order(one: str, other: str) -> int:
    """Compare keys: numbers by value, digits and signs around letters as yaml.v3 orders them (`sorter.go`)."""
    digits = False
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a == b:
            digits = a.isdigit()
            continue
        if a.isalpha() and b.isalpha():
            return -1 if a < b else 1
        if a.isalpha() or b.isalpha():
            return -1 if (a.isalpha() if digits else b.isalpha()) else 1
        start = 0
        if "0" in (a, b):
            leading = re.search(r"[0-9]*\Z", one[:index])
            start = 1 if leading is not None and leading[0].strip("0") else 0
        numbers = [re.match(r"[0-9]*", text[index:]) for text in (one, other)]
        first, second = (match[0] if match is not None else "" for match in numbers)
        values = [int(f"{start}{each}") if each else start for each in (first, second)]
        if values[0] != values[1]:
            return -1 if values[0] < values[1] else 1
        if len(first) != len(second):
            return -1 if len(first) < len(second) else 1
        return -1 if a < b else 1
    return (len(one) > len(other)) - (len(one) < len(other))


def _scalar(text: str, indent: int, *, is_key: bool = False) -> str:
    """Return a text in the simplest style that preserves it."""
    if not text:
        return '""'
    breaks = _BREAK.search(text) is not None
    special = _SPECIAL.search(text) is not None
    if "\n" in text and not is_key:
        if special or text.endswith(" "):
            return _double_quoted(text)
        return _literal(text, indent)
    if _RESOLVED.fullmatch(text) or (breaks and is_key):
        return _double_quoted(text)
    if special or "\t" in text:
        return _double_quoted(text)
    if breaks or _is_indicated(text) or text[0] == " " or text[-1] == " ":
        return "'" + text.replace("'", "''") + "'" if not breaks else _double_quoted(text)
    return text


def _is_indicated(text: str) -> bool:
    """Return whether a plain text would be parsed as YAML syntax."""
    if text[:3] in ("---", "...") or text[0] in _INDICATORS:
        return True
    if text[0] in "?:-" and (len(text) == 1 or text[1] in " \t"):
        return True
    return ": " in text or ":\t" in text or text.endswith(":") or " #" in text


def _literal(text: str, indent: int) -> str:
    hint = str(2) if text[0] in " \n" else ""
    chomp = (
        ""
        if text.endswith("\n") and len(text) > 1 and not text.endswith("\n\n")
        else "+"
        if text.endswith("\n")
        else "-"
    )
    lines = text.removesuffix("\n").split("\n")
    return f"|{hint}{chomp}\n" + "\n".join(f"{' ' * indent}{line}" if line else "" for line in lines)


def _double_quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in '"\\' or _BREAK.match(character) or _UNPRINTABLE.match(character):
        if character in _ESCAPES:
            return f"\\{_ESCAPES[character]}"
        return f"\\x{code:02X}" if code <= 0xFF else f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
    return character
