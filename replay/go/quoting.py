"""Go's quoting of strings (`strconv.Quote`, the verb `%q`), which error texts and formatted lists show."""

from __future__ import annotations

import unicodedata

_NAMED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def quote(text: str) -> str:
    """The text in double quotes; what Go does not count as printable is escaped."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    named = _NAMED.get(char)
    if named is not None:
        return named
    code = ord(char)
    if _is_print(char):
        return char
    if 0xDC80 <= code <= 0xDCFF:
        # `surrogateescape`: a byte that is no UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    if code < ord(" ") or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_print(char: str) -> bool:
    """Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space."""
    return char == " " or unicodedata.category(char)[0] in "LMNPS"
