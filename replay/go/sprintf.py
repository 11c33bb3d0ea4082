"""`fmt.Sprintf` for the arguments of policies: integers, floats, strings, booleans (`fmt/print.go`, `fmt/format.go`).

A Python int within 64 bits is a Go int, a larger one a `*big.Int`. A float is a float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

from replay.go.format import general, quote, shortest_digits

_LIMIT = 2**63
_WIDEST = 1_000_000


class _Flags:
    """Flags, width and precision of a verb."""

    def __init__(self) -> None:
        self.minus = self.plus = self.sharp = self.space = self.zero = False
        self.width: int | None = None
        self.precision: int | None = None

    def padded(self, text: str) -> str:
        """Return a text padded to the width, with spaces or with zeros on the left."""
        if self.width is None or len(text) >= self.width:
            return text
        if self.minus:
            return text.ljust(self.width)
        return text.rjust(self.width, "0" if self.zero else " ")


def sprintf(format_: str, arguments: Sequence[int | float | str | bool]) -> str:
    """Return the result of `fmt.Sprintf`."""
    return _Printer(format_, arguments).text()


class _Printer:
    """One call of `fmt.Sprintf`."""

    def __init__(self, format_: str, arguments: Sequence[int | float | str | bool]) -> None:
        self.format = format_
        self.arguments = arguments
        self.at = 0
        self.number = 0
        self.reordered = False
        self.good_number = True

    def text(self) -> str:
        out: list[str] = []
        size = len(self.format)
        was_reordered = False
        while self.at < size:
            percent = self.format.find("%", self.at)
            if percent < 0:
                out.append(self.format[self.at :])
                break
            out.append(self.format[self.at : percent])
            self.at = percent + 1
            self.reordered = False
            out.append(self._verb())
            was_reordered |= self.reordered
        if not was_reordered and self.number < len(self.arguments):
            extra = ", ".join(f"{_type(argument)}={_plain(argument)}" for argument in self.arguments[self.number :])
            out.append(f"%!(EXTRA {extra})")
        return "".join(out)

    def _verb(self) -> str:  # noqa: C901, PLR0912, PLR0915 - flags, width, precision and verb in their order
        flags = _Flags()
        self.good_number = True
        prefix = ""
        while self.at < len(self.format) and self.format[self.at] in "+-# 0":
            match self.format[self.at]:
                case "+":
                    flags.plus = True
                case "-":
                    flags.minus, flags.zero = True, False
                case "#":
                    flags.sharp = True
                case " ":
                    flags.space = True
                case _:
                    flags.zero = not flags.minus
            self.at += 1
        after_index = self._index()
        if self._next("*"):
            width = self._integer()
            if width is None:
                prefix += "%!(BADWIDTH)"
            elif width < 0:
                flags.width, flags.minus, flags.zero = -width, True, False
            else:
                flags.width = width
            after_index = False
        else:
            flags.width = self._digits()
            if after_index and flags.width is not None:
                self.good_number = False
        if self._next("."):
            if after_index:
                self.good_number = False
            after_index = self._index()
            if self._next("*"):
                precision = self._integer()
                flags.precision = precision if precision is not None and precision >= 0 else None
                if flags.precision is None:
                    prefix += "%!(BADPREC)"
                after_index = False
            else:
                flags.precision = self._digits() or 0
        if not after_index:
            self._index()
        if self.at >= len(self.format):
            return prefix + "%!(NOVERB)"
        verb = self.format[self.at]
        self.at += 1
        if verb == "%":
            return prefix + "%"
        if not self.good_number:
            return f"{prefix}%!{verb}(BADINDEX)"
        if self.number >= len(self.arguments):
            return f"{prefix}%!{verb}(MISSING)"
        argument = self.arguments[self.number]
        self.number += 1
        return prefix + _printed(argument, verb, flags)

    def _next(self, character: str) -> bool:
        if self.at < len(self.format) and self.format[self.at] == character:
            self.at += 1
            return True
        return False

    def _digits(self) -> int | None:
        start = self.at
        while self.at < len(self.format) and self.format[self.at] in "0123456789":
            self.at += 1
        if start == self.at:
            return None
        value = int(self.format[start : min(self.at, start + 9)])
        return value if value <= _WIDEST else None

    def _integer(self) -> int | None:
        """Return the argument that gives a width or precision, or None if it is not a small int."""
        if self.number >= len(self.arguments):
            return None
        value = self.arguments[self.number]
        self.number += 1
        return value if type(value) is int and abs(value) <= _WIDEST else None

    def _index(self) -> bool:
        """Read the number of an argument in brackets."""
        if self.at >= len(self.format) or self.format[self.at] != "[":
            return False
        self.reordered = True
        end = self.format.find("]", self.at)
        digits = self.format[self.at + 1 : end] if end > 0 else ""
        if end < 0:
            self.good_number = False
            self.at += 1
            return False
        self.at = end + 1
        if digits.isascii() and digits.isdigit() and 1 <= int(digits) <= len(self.arguments):
            self.number = int(digits) - 1
            return True
        self.good_number = False
        return True


def _type(argument: float | str) -> str:
    if isinstance(argument, bool):
        return "bool"
    if isinstance(argument, int):
        return "int" if -_LIMIT <= argument < _LIMIT else "*big.Int"
    return "float64" if isinstance(argument, float) else "string"


def _plain(argument: float | str) -> str:
    return _printed(argument, "v", _Flags())


def _printed(argument: float | str, verb: str, flags: _Flags) -> str:
    if verb == "T":
        return flags.padded(_type(argument))
    if verb == "v" and _type(argument) != "*big.Int":
        flags.plus = False
    if verb == "p":
        return _bad(argument, verb, flags)
    if isinstance(argument, bool):
        return flags.padded(str(argument).lower()) if verb in "tv" else _bad(argument, verb, flags)
    if isinstance(argument, int):
        return _integer(argument, verb, flags)
    return _float(argument, verb, flags) if isinstance(argument, float) else _string(argument, verb, flags)


def _bad(argument: float | str, verb: str, flags: _Flags) -> str:
    """Return the text for an argument that the verb does not support: its type and value, with the verb's flags."""
    plus, flags.sharp = flags.plus, False
    printed = (
        _float(argument, "g", flags)
        if isinstance(argument, float)
        else _integer(argument, "d", flags)
        if isinstance(argument, int) and not isinstance(argument, bool)
        else _printed(argument, "v", flags)
    )
    flags.plus = plus
    return f"%!{verb}({_type(argument)}={printed})"


def _integer(value: int, verb: str, flags: _Flags) -> str:
    is_big = not -_LIMIT <= value < _LIMIT
    bases = {
        "v": (10, ""),
        "d": (10, ""),
        "b": (2, "0b"),
        "o": (8, "0"),
        "O": (8, "0o"),
        "x": (16, "0x"),
        "X": (16, "0X"),
    }
    if verb in bases:
        base, mark = bases[verb]
        digits = format(abs(value), {10: "d", 2: "b", 8: "o", 16: "x"}[base])
        digits = digits.upper() if verb == "X" else digits
        if flags.precision is not None:
            digits = "" if flags.precision == 0 and value == 0 else digits.rjust(flags.precision, "0")
        sign = "-" if value < 0 else "+" if flags.plus else " " if flags.space else ""
        mark = mark if (flags.sharp and verb != "v") or verb == "O" else ""
        if flags.zero and flags.width is not None and flags.precision is None:
            digits = digits.rjust(flags.width - len(sign) - (len(mark) if is_big else 0), "0")
        whole = sign + mark + digits
        if flags.zero and flags.precision is not None:
            flags.zero = False
        return flags.padded(whole)
    if is_big:
        return flags.padded(str(value)) if verb == "s" else f"%!{verb}(big.Int={value})"
    if verb == "c":
        return flags.padded(chr(value) if 0 <= value <= 0x10FFFF and not 0xD800 <= value < 0xE000 else "\ufffd")
    if verb == "q":
        character = chr(value) if 0 <= value <= 0x10FFFF and not 0xD800 <= value < 0xE000 else "\ufffd"
        inner = quote(character)[1:-1]
        inner = _ascii_quote(character)[1:-1] if flags.plus else inner
        return flags.padded("'" + {'\\"': '"', "'": "\\'"}.get(inner, inner) + "'")
    if verb == "U":
        return flags.padded(f"U+{value % 2**64:04X}")
    return _bad(value, verb, flags)


def _float(value: float, verb: str, flags: _Flags) -> str:
    if verb not in "vbgGxXfFeE":
        return _bad(value, verb, flags)
    if verb in "bxX":
        raise NotImplementedError(f"%{verb} of a float")
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        flags.zero = False
        return flags.padded(text)
    kind = "g" if verb in "vgG" else verb.lower()
    precision = flags.precision if flags.precision is not None else (-1 if kind == "g" else 6)
    digits = _float_digits(abs(value), kind, precision)
    if verb in "GE":
        digits = digits.upper()
    negative = math.copysign(1, value) < 0
    sign = "-" if negative else "+" if flags.plus else " " if flags.space else ""
    if flags.zero and flags.width is not None:
        digits = digits.rjust(flags.width - len(sign), "0")
    return flags.padded(sign + digits)


def _float_digits(value: float, kind: str, precision: int) -> str:
    exact = Decimal(value)
    if kind == "f":
        return f"{exact:.{precision}f}"
    if kind == "e":
        return _exponent(f"{exact:.{precision}e}")
    if precision < 0:
        return general(*shortest_digits(value))
    precision = precision or 1
    if not value:
        return "0"
    rounded = _rounded(exact, precision)
    digits = "".join(map(str, rounded.as_tuple().digits)).rstrip("0") or "0"
    point = len(rounded.as_tuple().digits) + int(rounded.as_tuple().exponent)
    return general(digits, point, precision)


def _rounded(value: Decimal, digits: int) -> Decimal:
    exponent = value.adjusted() - digits + 1
    return value.quantize(Decimal((0, (1,), exponent)), rounding=ROUND_HALF_EVEN) if value else value


def _exponent(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:].rjust(2, '0')}"


def _string(value: str, verb: str, flags: _Flags) -> str:
    if flags.precision is not None and verb not in "xX":
        value, flags.precision = value[: flags.precision], None
    match verb:
        case "s" | "v":
            return flags.padded(quote(value) if flags.sharp and verb == "v" else value)
        case "q":
            if (
                flags.sharp
                and "`" not in value
                and all(character == "\t" or (character.isprintable()) for character in value)
            ):
                return flags.padded(f"`{value}`")
            return flags.padded(_ascii_quote(value) if flags.plus else quote(value))
        case "x" | "X":
            octets = value.encode("utf-8", "surrogateescape")
            octets = octets if flags.precision is None else octets[: flags.precision]
            text = octets.hex(" " if flags.space else "") if flags.space else octets.hex()
            if flags.sharp:
                text = ("0x" + text.replace(" ", " 0x")) if text else text
            return flags.padded(text.upper() if verb == "X" else text)
    return _bad(value, verb, flags)


def _ascii_quote(value: str) -> str:
    quoted = quote(value)
    return "".join(
        c if ord(c) < 128 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}" for c in quoted
    )
