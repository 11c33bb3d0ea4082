"""How Go prints values, and reads numbers in text (`strconv`).

The texts of the API server's errors are made of these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from replay.json import JSON

_ESCAPES = {
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
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_JSON_PLAIN = re.compile(r'[^"\\\x00-\x1f<>&\u2028\u2029\ud800-\udfff]*')
_JSON_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """`text` as a Go string literal, as `%q` prints it."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(_quoted_character(character) for character in text) + '"'


def _quoted_character(character: str) -> str:
    if escape := _ESCAPES.get(character):
        return escape
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, kept by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def float_text(value: float) -> str:
    """A float64 as `encoding/json` writes it: shortest digits, with an exponent below 1e-6 and from 1e21."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digit_tuple, exponent = Decimal(repr(value)).as_tuple()
    written = "".join(map(str, digit_tuple))
    point = len(written) + int(exponent)
    digits = written.rstrip("0")
    if not 1e-6 <= abs(value) < 1e21:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        text = f"{digits[0]}{fraction}e{point - 1:+d}"
    elif point <= 0:
        text = f"0.{'0' * -point}{digits}"
    elif point >= len(digits):
        text = digits.ljust(point, "0")
    else:
        text = f"{digits[:point]}.{digits[point:]}"
    return f"-{text}" if sign else text


def marshal(value: JSON, *, sort_keys: bool = True) -> str:
    """A value as compact JSON; the keys of a map are sorted, those of a struct (`sort_keys=False`) stay in order."""
    if isinstance(value, Mapping):
        keys = sorted(value) if sort_keys else value
        items = (f"{marshal_string(key)}:{marshal(value[key], sort_keys=sort_keys)}" for key in keys)
        return "{" + ",".join(items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(marshal(item, sort_keys=sort_keys) for item in value) + "]"
    return marshal_string(value) if isinstance(value, str) else _marshalled_scalar(value)


def _marshalled_scalar(value: float | None) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return float_text(value) if isinstance(value, float) else str(value)


def marshal_string(text: str) -> str:
    """A string as JSON, with `<`, `>`, `&` and the two line separators escaped."""
    if _JSON_PLAIN.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(_marshalled_character(character) for character in text) + '"'


def _marshalled_character(character: str) -> str:
    if escape := _JSON_ESCAPES.get(character):
        return escape
    if character < " " or character in "<>&\u2028\u2029":
        return f"\\u{ord(character):04x}"
    if "\ud800" <= character <= "\udfff":
        return "\\ufffd"
    return character


def go_syntax(value: JSON) -> str:
    """A decoded YAML value as `%#v` prints it."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        return float_text(value) if math.isfinite(value) else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if isinstance(value, dict):
        inner = ", ".join(f"{go_syntax(key)}:{go_syntax(item)}" for key, item in value.items())
        return f"map[interface {{}}]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(go_syntax(item) for item in value)}}}"
    return "<nil>" if value is None else str(value).lower()


_VERB = re.compile(
    r"%[#0+\- ]*(?P<first>\[(?:[^\]]*\])?)?(?P<width>\*|[0-9]+)?(?:\.(?P<second>\[(?:[^\]]*\])?)?(?P<precision>\*|[0-9]+)?)?"
    r"(?P<third>\[(?:[^\]]*\])?)?(?P<verb>.?)",
    re.DOTALL,
)
"""A `%` and all that belongs to it: flags, width, precision, argument numbers in brackets, the verb."""


def sprintf_without_arguments(text: str) -> str:
    """What `fmt.Sprintf(text)` makes of a text that is no format: every verb misses its argument."""
    return _VERB.sub(_missing, text) if "%" in text else text


def _missing(match: re.Match[str]) -> str:
    bad = "%!(BADWIDTH)" if match["width"] == "*" else ""
    bad += "%!(BADPREC)" if match["precision"] == "*" else ""
    verb = match["verb"]
    if not verb:
        return f"{bad}%!(NOVERB)"
    if verb == "%":
        return f"{bad}%"
    is_numbered = match["first"] or match["second"] or match["third"]
    return f"{bad}%!{verb}({'BADINDEX' if is_numbered else 'MISSING'})"


_SIGNED = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_MOST_DIGITS = 20
"""No number of 64 bits has more."""


def parse_int(text: str, bits: int = 64) -> int | None:
    """Parse an integer with `bits` bits; None for other texts or out of range."""
    if _SIGNED.fullmatch(text) is None:
        return None
    magnitude = _magnitude(text.lstrip("+-"))
    if magnitude is None:
        return None
    value = -magnitude if text.startswith("-") else magnitude
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_uint(text: str, bits: int = 64) -> int | None:
    """Parse an unsigned integer with `bits` bits; None for other texts or out of range."""
    if _UNSIGNED.fullmatch(text) is None:
        return None
    value = _magnitude(text)
    return value if value is not None and value < 1 << bits else None


def _magnitude(digits: str) -> int | None:
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= _MOST_DIGITS else None
