"""Builtins that parse or format numbers: `to_number`, `units.parse`, `units.parse_bytes`, `format_int`.

The Go sources are `casts.go`, `parse_units.go` and `parse_bytes.go`.
"""

from __future__ import annotations

import re
from fractions import Fraction

from replay.gatekeeper.rego.builtins.operand import BuiltinError, builtin
from replay.gatekeeper.rego.value import Number, Value, rounded

_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:_[0-9]+)*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HUGE = 400


class ParsedNumberError(Exception):
    """Text that is not a number."""


def parse_float(text: str) -> Value:
    """Return the number of a text that `strconv.ParseFloat` accepts, as it is written. Raises ParsedNumberError."""
    if not _FLOAT.fullmatch(text):
        raise ParsedNumberError
    exponent = text.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > _HUGE:
        raise ParsedNumberError
    value = Fraction(text.replace("_", ""))
    if abs(value) >= Fraction(2) ** 1024:
        raise ParsedNumberError
    plain = text.removeprefix("-")
    if plain.isdecimal() and (plain == "0" or plain[0] != "0") and text != "-0":
        return int(text)
    return Number(text, value)


@builtin("format_int", "nn")
def _format_int(value: int | Number, base: int | Number) -> Value:
    formats = {2: "b", 8: "o", 10: "d", 16: "x"}
    if type(base) is not int or base not in formats:
        raise BuiltinError
    exact = value.value if isinstance(value, Number) else Fraction(value)
    return format(int(rounded(exact)), formats[base])


_UNITS = {
    "": 1,
    "m": Fraction(1, 1000),
    **{letter: 1000**power for power, letter in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    "K": 1000,
    **{f"{letter}i": 1024**power for power, letter in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    "Ki": 1024,
}


@builtin("units.parse", "s")
def _units(text: str) -> Value:
    clean = text.replace('"', "")
    if not clean or " " in clean:
        raise BuiltinError
    digits, written = _split(clean)
    unit = _canonical_unit(written)
    if not digits or unit is None:
        raise BuiltinError
    total = rounded(_fraction(digits) * _UNITS[unit])
    if total.denominator == 1:
        return int(total)
    return Number(_ten_digits(total))


def _ten_digits(value: Fraction) -> str:
    """Return the result of `big.Float.Text('f', 10)`, without trailing zeros."""
    scaled = round(value * 10**10)
    sign, scaled = ("-", -scaled) if scaled < 0 else ("", scaled)
    text = f"{scaled // 10**10}.{scaled % 10**10:010d}"
    return sign + text


def _canonical_unit(unit: str) -> str | None:
    if len(unit) == 1:
        if unit in ("m", "M"):
            return unit
        upper = unit.upper()
        return "k" if upper == "K" else upper if upper in ("G", "T", "P", "E") else None
    if len(unit) == 2 and unit[1] in ("i", "I"):
        upper = unit[0].upper()
        return "ki" if upper == "K" else f"{upper}i" if upper in ("M", "G", "T", "P", "E") else None
    return "" if not unit else None


_BYTES = {
    "": 1,
    **{
        name: 1000**power
        for power, names in enumerate((("kb", "k"), ("mb", "m"), ("gb", "g"), ("tb", "t"), ("pb", "p"), ("eb", "e")), 1)
        for name in names
    },
}
_BYTES |= {name: 1024**power for power, letter in enumerate("kmgtpe", 1) for name in (f"{letter}ib", f"{letter}i")}


@builtin("units.parse_bytes", "s")
def _bytes(text: str) -> Value:
    clean = text.lower().replace('"', "")
    if " " in clean:
        raise BuiltinError
    digits, unit = _split(clean)
    if not digits or unit not in _BYTES:
        raise BuiltinError
    return int(rounded(_fraction(digits) * _BYTES[unit]))


def _split(text: str) -> tuple[str, str]:
    """Return a number and its unit (`extractNumAndUnit`). Raises BuiltinError."""
    at = 0
    while at < len(text):
        character = text[at]
        if not (character.isdigit() or character in ".eE+-"):
            break
        if character in "eE":
            if at == len(text) - 1 or not (text[at + 1].isdigit() or text[at + 1] in "+-"):
                break
            at += text[at + 1] in "+-"
            digits = re.match(r"[0-9]*", text[at + 1 :])
            if digits and len(digits.group()) > 6:
                raise BuiltinError
        at += 1
    return text[:at], text[at:]


def _fraction(digits: str) -> Fraction:
    if not re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?", digits):
        raise BuiltinError
    exponent = re.search(r"[eE]([+-]?[0-9]+)$", digits)
    if exponent and abs(int(exponent.group(1))) > 4000:
        raise BuiltinError
    return rounded(Fraction(digits))
