"""Integer and floating-point arithmetic within the ranges of CEL (language definition, "Numeric Values").

Every function takes operands of one type and raises `EvalError` if the result does not fit the type, as cel-go's
`common/types/overflow.go` does.
"""

from __future__ import annotations

import math

from replay.cel.value.values import EvalError, Uint

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
UINT_MAX = 2**64 - 1

INT_OVERFLOW = "integer overflow"
UINT_OVERFLOW = "unsigned integer overflow"
DIVISION_BY_ZERO = "division by zero"
MODULUS_BY_ZERO = "modulus by zero"


def checked_int(value: int) -> int:
    """Return the value if it fits in an int64."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvalError(INT_OVERFLOW)


def checked_uint(value: int) -> Uint:
    """Return the value as a uint if it fits in a uint64."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvalError(UINT_OVERFLOW)


def truncated_quotient(dividend: int, divisor: int) -> int:
    """Divide, rounding toward zero."""
    if divisor == 0:
        raise EvalError(DIVISION_BY_ZERO)
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def truncated_remainder(dividend: int, divisor: int) -> int:
    """Return the remainder of `truncated_quotient`, which has the sign of the dividend."""
    if divisor == 0:
        raise EvalError(MODULUS_BY_ZERO)
    remainder = abs(dividend) % abs(divisor)
    return -remainder if dividend < 0 else remainder


def modulo_int(dividend: int, divisor: int) -> int:
    """Return `%` of two ints. The least int by -1 overflows, although its remainder would be 0."""
    if dividend == INT_MIN and divisor == -1:
        raise EvalError(INT_OVERFLOW)
    return truncated_remainder(dividend, divisor)


def divide_double(dividend: float, divisor: float) -> float:
    """Return `/` of two doubles (IEEE 754): division by zero gives an infinity or NaN."""
    if divisor != 0.0:
        return dividend / divisor
    if dividend == 0.0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def int_from_double(value: float) -> int:
    """Truncate toward zero. Both ends of the range are excluded because neither neighbour is exact."""
    if math.isfinite(value) and -9223372036854775808.0 < value < 9223372036854775808.0:
        return int(value)
    raise EvalError(INT_OVERFLOW)


def uint_from_double(value: float) -> Uint:
    """Truncate toward zero."""
    if math.isfinite(value) and 0.0 <= value < 18446744073709551616.0:
        return Uint(int(value))
    raise EvalError(UINT_OVERFLOW)


def lossless_int(value: float) -> int | None:
    """Return the int equal to a double, or None if there is none."""
    try:
        integer = int_from_double(value)
    except EvalError:
        return None
    return integer if float(integer) == value else None


def lossless_uint(value: float) -> Uint | None:
    """Return the uint equal to a double, or None if there is none."""
    try:
        integer = uint_from_double(value)
    except EvalError:
        return None
    return integer if float(integer) == value else None
