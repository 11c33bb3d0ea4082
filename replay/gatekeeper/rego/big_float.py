"""Go's `big.Float` with 64 bits, in which OPA calculates unless numbers are small integers.

The rules are those of `opa/v1/topdown/arithmetic.go`.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

_BITS = 64


def rounded(value: Fraction) -> Fraction:
    """Return the nearest number with a mantissa of 64 bits. Ties go to the even one."""
    if not value:
        return value
    sign, value = (-1, -value) if value < 0 else (1, value)
    shift = _exponent(value) - _BITS
    scaled = value / Fraction(2) ** shift
    return sign * round(scaled) * Fraction(2) ** shift


def _exponent(value: Fraction) -> int:
    """Return the exponent `e` with `2**(e-1) <= value < 2**e`."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent + 1 if value >= Fraction(2) ** exponent else exponent


def float_text(value: Fraction) -> str:
    """Return a number as `builtins.FloatToNumber` does.

    An integer is written in full, another number with the fewest digits that identify the 64 bits.
    """
    digits, point = _shortest(abs(value)) if value else ("0", 1)
    sign = "-" if value < 0 else ""
    if value.denominator == 1:
        return sign + (digits.ljust(point, "0"))
    return sign + _general(digits, point)


def general_text(value: float) -> str:
    """Return a float64 as `strconv.FormatFloat(value, 'g', -1, 64)` does."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    negative, digit_tuple, exponent = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, digit_tuple))
    point = len(digits) + int(exponent)
    return ("-" if negative else "") + _general(digits.rstrip("0"), point)


def _general(digits: str, point: int) -> str:
    """Return digits with the decimal point before digit `point`. An exponent is used below -4 and from 6."""
    exponent = point - 1
    if exponent < -4 or exponent >= 6:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if point >= len(digits):
        return digits.ljust(point, "0")
    return f"{digits[:point]}.{digits[point:]}"


def _shortest(value: Fraction) -> tuple[str, int]:
    """Return the fewest digits that round to `value` at 64 bits, and the position of the decimal point."""
    shift = _exponent(value) - _BITS
    unit = Fraction(2) ** shift
    mantissa = value / unit
    low, high = value - unit / 2, value + unit / 2  # the same below a power of two, where numbers lie closer
    is_even = mantissa.numerator % 2 == 0
    point = len(str(value.numerator // value.denominator)) if value >= 1 else -_leading_zeros(value)
    for count in range(1, 30):
        scale = Fraction(10) ** (count - point)
        scaled = value * scale
        down = scaled.numerator // scaled.denominator
        near = round(scaled)
        for candidate in (near, down, down + 1):
            number = candidate / scale
            if low < number < high or (is_even and number in (low, high)):
                text = str(candidate)
                return text.rstrip("0"), point + len(text) - count
    raise AssertionError


def _leading_zeros(value: Fraction) -> int:
    """Return the number of zeros between the point and the first other digit."""
    zeros = 0
    while value * 10 < 1:
        value *= 10
        zeros += 1
    return zeros
