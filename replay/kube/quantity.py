"""Amounts such as `500m` and `1Gi`, with arithmetic (`k8s.io/apimachinery/pkg/api/resource`).

An amount is an integer times a power of ten. The server keeps it as an int64, or as a big decimal if it does not fit.
The difference is visible, because `as_int64` is never known of a big decimal. So it is part of the value here too.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from replay.go.format import parse_int

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC = "unable to parse numeric part of quantity"
SUFFIX = "unable to parse quantity's suffix"
TOO_LARGE = "quantity has too many digits"
"""An error of this project. The server would compute with gigabytes of digits instead."""

_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)
_MAX_INT64_DIGITS = 18
_NANO = -9
_MAX_SHIFT = 2000
_MAX_BITS = 13_000


class QuantityFormat(StrEnum):
    """The notation of an amount, kept when it is written again."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: name for name, exponent in DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = {exponent: name for name, exponent in _BINARY.items()}

_PARTS = re.compile(
    r"(?P<value>[+-]?0*(?P<num>[0-9]*)(?:\.(?P<denom>[0-9]*))?)(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII
)


class QuantityError(ValueError):
    """A text is not a quantity, or a result is out of range. `str()` is the server's text."""


class Quantity(Struct, frozen=True):
    """An amount `value * 10**scale`.

    `big` marks a big decimal instead of an int64. `text` is kept if it is already canonical.
    """

    value: int
    scale: int = 0
    format: QuantityFormat = QuantityFormat.DECIMAL_SI
    big: bool = False
    text: str = ""

    def __str__(self) -> str:
        """Return the canonical form."""
        return self.text or _canonical(self)

    @property
    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.value > 0) - (self.value < 0)

    @property
    def as_int64(self) -> int | None:
        """Return the amount as an integer, None if it is not one or is a big decimal."""
        if self.big or self.scale < 0:
            return None
        return _scaled_up(self.value, self.scale)

    @property
    def as_float(self) -> float:
        """Return the nearest double of the digits times a power of ten, rounded twice as in Go."""
        base = _float(self.value)
        return base if self.scale == 0 else base * _pow10(self.scale)

    def rounded_up(self, scale: int = 0) -> int:
        """Return the amount in units of `10**scale`, rounded away from zero (`Quantity.ScaledValue`)."""
        shift = self.scale - scale
        if shift >= 0:
            return self.value * int(10**shift)
        return self.sign * -(-abs(self.value) // int(10**-shift))

    def as_big(self) -> Quantity:
        """Return the same amount as a big decimal."""
        return self if self.big else replace(self, big=True)

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1 if this amount is less than, equal to or greater than the other."""
        if self.sign != other.sign or self.sign == 0:
            return (self.sign > other.sign) - (self.sign < other.sign)
        # With scales so far apart, the number of digits decides, and the common scale would need too many.
        if abs(self.scale - other.scale) > _MAX_SHIFT:
            return self.sign * (1 if _magnitude(self) > _magnitude(other) else -1)
        left, right, _ = _aligned(self, other)
        return (left > right) - (left < right)

    def add(self, other: Quantity) -> Quantity:
        """Return the sum, in the format of the first amount that is not zero.

        Raise `QuantityError` for too many digits.
        """
        result = replace(self, text="")
        if self.value == 0:
            result = replace(result, format=other.format)
        if not self.big and not other.big:
            total = _add_int64(self, other)
            if total is not None:
                return replace(result, value=total[0], scale=total[1])
        left, right, scale = _aligned(self, other)
        return replace(result, value=left + right, scale=scale, big=True)

    def subtract(self, other: Quantity) -> Quantity:
        """Return the difference, in the format of the first amount that is not zero."""
        if not self.big and not other.big:
            # Go negates within int64, where the least number stays itself.
            negated = replace(other, value=-other.value if other.value != _INT64_MIN else other.value)
            if _add_int64(self, negated) is not None:
                return self.add(negated)
        return self.as_big().add(replace(other, value=-other.value))


def parse_quantity(text: str) -> Quantity:
    """Return the quantity of a text. Raise `QuantityError`."""
    if text == "0":
        return Quantity(0, text="0")
    match = _PARTS.fullmatch(text)
    if match is None or not text:
        raise QuantityError(FORMAT_WRONG)
    base, exponent, format_ = _interpret(match["suffix"])
    num, denom = match["num"] or "0", match["denom"] or ""
    mantissa, scale = 1, 0
    if base == 10:
        scale, precision = exponent, _MAX_INT64_DIGITS - len(num) - len(denom)
    elif not denom:
        mantissa, precision = 1 << exponent, 15 - len(num) - exponent * 3 // 10 - 1
    else:
        precision = -1
    # Short amounts are kept as int64, all others as big decimals (`ParseQuantity`).
    if precision >= 0 and scale - len(denom) >= _NANO:
        value = int(num + denom)
        if value * mantissa <= _INT64_MAX:
            # A text that is surely canonical is kept as it is. Others are written again when needed.
            canonical = _is_canonical(num + denom, value, scale - len(denom), format_)
            signed = -value * mantissa if text.startswith("-") else value * mantissa
            return Quantity(signed, scale - len(denom), format_, text=text if canonical else "")
    return _parse_big(match["value"], base, exponent, format_)


def is_quantity(text: str) -> bool:
    """Return whether a text is a quantity."""
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _interpret(suffix: str) -> tuple[int, int, QuantityFormat]:
    if suffix in DECIMAL_SUFFIXES:
        return 10, DECIMAL_SUFFIXES[suffix], QuantityFormat.DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], QuantityFormat.BINARY_SI
    exponent = parse_int(suffix[1:]) if suffix[:1] in ("e", "E") else None
    if exponent is None:
        raise QuantityError(SUFFIX)
    # Go converts the exponent to int32 without a check, so a large one wraps.
    return 10, (exponent + 2**31) % 2**32 - 2**31, QuantityFormat.DECIMAL_EXPONENT


def _is_canonical(digits: str, value: int, scale: int, format_: QuantityFormat) -> bool:
    if format_ is QuantityFormat.BINARY_SI:
        return value & 0x07 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _parse_big(text: str, base: int, exponent: int, format_: QuantityFormat) -> Quantity:
    integer, _, fraction = text.lstrip("+-").partition(".")
    if not integer + fraction:
        raise QuantityError(NUMERIC)
    if len(integer) + len(fraction) > _MAX_SHIFT or exponent > _MAX_SHIFT:
        raise QuantityError(TOO_LARGE)
    value, scale = int(integer + fraction), -len(fraction)
    if base == 10:
        scale += exponent
    else:
        value <<= exponent
    if value:
        value, scale = _rounded_away(value, scale, _NANO), _NANO
    # Binary amounts are capped at int64, and those below one become decimal (`ParseQuantity`).
    if format_ is QuantityFormat.BINARY_SI:
        if value > _INT64_MAX * 10 ** max(-scale, 0):
            value, scale = _INT64_MAX, 0
        elif 0 < value < 10 ** max(-scale, 0):
            format_ = QuantityFormat.DECIMAL_SI
    return Quantity(-value if text.startswith("-") else value, scale, format_, big=True)


def _rounded_away(value: int, scale: int, target: int) -> int:
    """Return the value at another scale, rounded away from zero."""
    if scale >= target:
        return int(value * 10 ** (scale - target))
    # So small an amount rounds to one unit, without computing the digits.
    if target - scale > 2 * _MAX_SHIFT:
        return (value > 0) - (value < 0)
    quotient = -(-abs(value) // 10 ** (target - scale))
    return int(-quotient if value < 0 else quotient)


def _scaled_up(value: int, scale: int) -> int | None:
    """Return `value * 10**scale`, or None if an int64 cannot hold it."""
    if value == 0 or scale == 0:
        return value
    if scale > _MAX_INT64_DIGITS or value == _INT64_MIN:
        return None
    result = int(value * 10**scale)
    return result if _INT64_MIN <= result <= _INT64_MAX else None


def _add_int64(left: Quantity, right: Quantity) -> tuple[int, int] | None:
    """Return value and scale of the sum, or None if an int64 cannot hold it."""
    if right.value == 0:
        return left.value, left.scale
    if left.value == 0:
        return right.value, right.scale
    scale = min(left.scale, right.scale)
    a, b = _scaled_up(left.value, left.scale - scale), _scaled_up(right.value, right.scale - scale)
    if a is None or b is None or not _INT64_MIN <= a + b <= _INT64_MAX:
        return None
    return a + b, scale


def _aligned(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    scale = min(left.scale, right.scale)
    if max(left.scale, right.scale) - scale > _MAX_SHIFT or left.value.bit_length() > _MAX_BITS:
        raise QuantityError(TOO_LARGE)
    return left.value * 10 ** (left.scale - scale), right.value * 10 ** (right.scale - scale), scale


def _magnitude(quantity: Quantity) -> int:
    return len(str(abs(quantity.value))) + quantity.scale


def _canonical(quantity: Quantity) -> str:
    if quantity.value == 0:
        return "0"
    if quantity.format is QuantityFormat.BINARY_SI:
        small = quantity.compare(Quantity(1024)) < 0 and quantity.compare(Quantity(-1024)) > 0
        rounded = _rounded_away(quantity.value, quantity.scale, 0)
        if not small and quantity.compare(Quantity(rounded)) == 0:
            amount, times = _without_factors(rounded, 1024)
            return f"{amount}{_BINARY_NAMES.get(times * 10, '')}"
    amount, times = _without_factors(quantity.value, 10)
    exponent = quantity.scale + times
    amount, exponent = amount * 10 ** (exponent % 3), exponent - exponent % 3
    if quantity.format is QuantityFormat.DECIMAL_EXPONENT:
        return f"{amount}e{exponent}" if exponent else str(amount)
    # The server leaves out a suffix that it has no name for.
    return f"{amount}{_DECIMAL_NAMES.get(exponent, '')}"


def _without_factors(value: int, factor: int) -> tuple[int, int]:
    times = 0
    while value % factor == 0:
        value, times = value // factor, times + 1
    return value, times


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _pow10(exponent: int) -> float:
    """Return a power of ten as Go's `math.Pow10` does: the product or quotient of two table entries."""
    if 0 <= exponent <= 308:
        return float(f"1e{exponent // 32 * 32}") * float(f"1e{exponent % 32}")
    if -323 <= exponent <= 0:
        return float(f"1e-{-exponent // 32 * 32}") / float(f"1e{-exponent % 32}")
    return float("inf") if exponent > 0 else 0.0
