"""Values and errors as Go prints them, and numbers as Go parses them (`strconv`).

The API server's error texts contain such values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from msgspec import Struct

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
    """Return a text as a Go string literal, as `%q` prints it."""
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


def shortest_digits(value: float) -> tuple[str, int]:
    """Return the fewest digits that identify a finite number, without its sign, and how many are before the decimal point."""
    if value == 0:
        return "0", 1
    _, digits, exponent = Decimal(repr(value)).as_tuple()
    return "".join(map(str, digits)).rstrip("0"), len(digits) + int(exponent)


def positional(digits: str, point: int) -> str:
    """Return digits of which `point` are before the decimal point."""
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    return digits.ljust(point, "0") if point >= len(digits) else f"{digits[:point]}.{digits[point:]}"


def scientific(digits: str, point: int, letter: str = "e") -> str:
    """Return the same with an exponent of at least two digits."""
    return f"{digits[0]}{f'.{digits[1:]}' if len(digits) > 1 else ''}{letter}{point - 1:+03d}"


def general(digits: str, point: int, precision: int = 6) -> str:
    """Return the same with an exponent below -4 and from `precision` on (`%g`)."""
    return positional(digits, point) if -4 < point <= precision else scientific(digits, point)


def general_text(value: float) -> str:
    """Return a float64 as `%v` prints it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return sign_of(value) + general(*shortest_digits(value))


def sign_of(value: float) -> str:
    """Return the minus of a negative number, also of -0."""
    return "-" if math.copysign(1, value) < 0 else ""


def float_text(value: float) -> str:
    """Return a float64 as `encoding/json` writes it: shortest digits, with an exponent below 1e-6 and from 1e21."""
    digits, point = shortest_digits(value)
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return sign_of(value) + positional(digits, point)
    mantissa = scientific(digits, point).partition("e")[0]
    return f"{sign_of(value)}{mantissa}e{point - 1:+d}"


def marshal(value: JSON, *, sort_keys: bool = True) -> str:
    """Return a value as compact JSON. Keys of maps are sorted. With `sort_keys=False` they stay in order, as in structs."""
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
    """Return a string as JSON, with `<`, `>`, `&` and the two Unicode line separators escaped."""
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
    """Return a decoded YAML value as `%#v` prints it."""
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
"""Verb with `%`, flags, width, precision and argument numbers in brackets."""


def sprintf_without_arguments(text: str) -> str:
    """Return the result of `fmt.Sprintf(text)` without arguments: every verb misses its argument."""
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


def aggregate(errors: Iterable[object]) -> str:
    """Return several errors as one text: each once, and in brackets if they differ (`Aggregate.Error` of `k8s.io/apimachinery/pkg/util/errors`)."""
    texts = list(dict.fromkeys(map(str, errors)))
    return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)


class GoValue(Struct, frozen=True):
    """Value of a Go type that JSON lacks. `text` is how Go prints it, `json` how encoding/json writes it.

    `json` is None if encoding/json refuses the type. `syntax` is the result of `%#v`, empty if it equals `text`.
    """

    go_type: str
    text: str
    json: JSON = None
    syntax: str = ""

    def __str__(self) -> str:
        """Return the result of `%v`."""
        return self.text


_MOST_DIGITS = 20
"""The most significant digits of an integer of 64 bits."""
_INTEGER = re.compile(rf"(?P<sign>[+-]?)0*(?P<digits>[0-9]{{1,{_MOST_DIGITS}}})")


def parse_int(text: str, bits: int = 64) -> int | None:
    """Return an integer with `bits` bits, or None for another text or a number out of range."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    value = -int(match["digits"]) if match["sign"] == "-" else int(match["digits"])
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_uint(text: str, bits: int = 64) -> int | None:
    """Return an unsigned integer with `bits` bits, or None for another text or a number out of range."""
    digits = text.lstrip("0")
    if not text.isdecimal() or not text.isascii() or len(digits) > _MOST_DIGITS:
        return None
    value = int(digits or "0")
    return value if value < 1 << bits else None
