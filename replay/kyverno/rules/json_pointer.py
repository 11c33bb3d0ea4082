"""Path within a rule as a JMESPath expression, for the variable `@` (`pkg/utils/jsonpointer`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNQUOTED = re.compile(r"[(A-Z_a-z][)0-9A-Z_a-z]*", re.ASCII)
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def parsed_path(path: str) -> list[str]:
    """Return the parts of a path. A backslash escapes the next character, and quotation marks keep slashes."""
    parts: list[str] = []
    part, is_escaped, is_quoted = "", False, False
    for character in path:
        if is_escaped:
            part, is_escaped = part + character, False
        elif character == "\\":
            is_escaped = True
        elif character == '"':
            is_quoted = not is_quoted
        elif character == "/" and not is_quoted:
            parts, part = ([*parts, part] if part else parts), ""
        else:
            part += character
    return [*parts, part] if part else parts


def jmespath_of(parts: Sequence[str]) -> str:
    """Return the JMESPath expression for the parts. A number is an index."""
    text = ""
    for part in parts:
        if part.isascii() and part.isdigit():
            text += f"[{part}]"
            continue
        text += "." if text else ""
        text += part if _UNQUOTED.fullmatch(part) else '"' + "".join(map(_quoted, part)) + '"'
    return text


def _quoted(character: str) -> str:
    if character in _ESCAPES and character in '"\\':
        return _ESCAPES[character]
    if " " <= character <= "\u1eff" or character >= "\U00001000":
        return character
    return _ESCAPES.get(character) or f"\\u{ord(character) & 0xFFFF:04x}"
