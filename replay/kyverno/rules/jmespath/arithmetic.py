"""Arithmetic on numbers, quantities and durations (`pkg/engine/jmespath/arithmetic.go`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

from msgspec import Struct

from replay.go.format import parse_int, quote
from replay.go.time import RFC3339, SECOND, DurationError, GoTime, TimeError, duration_text, parse_duration, parse_time
from replay.json import JSON
from replay.kube.quantity import Quantity, QuantityError, parse_quantity
from replay.kyverno.rules.go_value import sprint, truncated
from replay.kyverno.rules.jmespath.standard import ANY, ARRAY, NUMBER, STRING, Function
from replay.kyverno.rules.response import JMESPathError


class _Duration(Struct, frozen=True):
    """Duration in nanoseconds."""

    nanoseconds: int

    @property
    def seconds(self) -> float:
        whole, fraction = abs(self.nanoseconds) // SECOND, abs(self.nanoseconds) % SECOND
        seconds = float(whole) + float(fraction) / 1e9
        return -seconds if self.nanoseconds < 0 else seconds

    def __str__(self) -> str:
        return duration_text(self.nanoseconds)


_Operand = float | Quantity | _Duration


def _error(function: str, message: str) -> JMESPathError:
    return JMESPathError(f"JMESPath function '{function}': {message}")


def _operand(function: str, value: JSON) -> _Operand:
    if type(value) is float:
        return value
    if type(value) is str:
        try:
            return parse_quantity(value)
        except QuantityError:
            try:
                return _Duration(parse_duration(value))
            except DurationError:
                pass
    raise _error(function, "invalid operand")


def _operands(function: str, left: JSON, right: JSON) -> tuple[_Operand, _Operand]:
    return _operand(function, left), _operand(function, right)


def _mismatch(function: str) -> JMESPathError:
    return _error(function, "Types mismatch")


def _wrapped(nanoseconds: int) -> int:
    # Go's `time.Duration` is an int64 that wraps around.
    return (nanoseconds + 2**63) % 2**64 - 2**63


def _added(function: str, left: JSON, right: JSON) -> JSON:
    match _operands(function, left, right):
        case (float() as one, float() as other):
            return one + other
        case (Quantity() as one, Quantity() as other):
            return str(one.add(other))
        case (_Duration() as one, _Duration() as other):
            return duration_text(_wrapped(one.nanoseconds + other.nanoseconds))
    raise _mismatch(function)


def _add(left: JSON, right: JSON) -> JSON:
    return _added("add", left, right)


def _sum(items: JSON) -> JSON:
    if type(items) is not list:
        raise _mismatch("sum")
    if not items:
        raise _error("sum", "at least one element in the array is required")
    return reduce(lambda total, item: _added("sum", total, item), items)


def _subtract(left: JSON, right: JSON) -> JSON:
    match _operands("subtract", left, right):
        case (float() as one, float() as other):
            return one - other
        case (Quantity() as one, Quantity() as other):
            return str(one.subtract(other))
        case (_Duration() as one, _Duration() as other):
            return duration_text(_wrapped(one.nanoseconds - other.nanoseconds))
    raise _mismatch("subtract")


def _multiply(left: JSON, right: JSON) -> JSON:
    match _operands("multiply", left, right):
        case (float() as one, float() as other):
            return one * other
        case (Quantity() as quantity, float() as factor) | (float() as factor, Quantity() as quantity):
            other_quantity = _quantity(factor)
            product = quantity.value * other_quantity.value
            return str(Quantity(product, quantity.scale + other_quantity.scale, quantity.format, big=True))
        case (_Duration() as duration, float() as factor) | (float() as factor, _Duration() as duration):
            return duration_text(truncated(duration.seconds * factor * 1e9))
    raise _mismatch("multiply")


def _divide(left: JSON, right: JSON) -> JSON:
    match _operands("divide", left, right):
        case (float() as one, float() as other):
            return one / _divisor(other)
        case (Quantity() as quantity, Quantity() as divisor):
            return quantity.as_float / _divisor(divisor.as_float)
        case (Quantity() as quantity, float() as divisor):
            return str(_quotient(quantity, _quantity(_divisor(divisor))))
        case (_Duration() as one, _Duration() as other):
            return one.seconds / _divisor(other.seconds)
        case (_Duration() as duration, float() as divisor):
            return duration_text(truncated(duration.seconds / _divisor(divisor) * 1e9))
    raise _mismatch("divide")


def _divisor(value: float) -> float:
    if value == 0:
        raise _error("divide", "Zero divisor passed")
    return value


def _quotient(dividend: Quantity, divisor: Quantity) -> Quantity:
    """Return the quotient, truncated to the decimals of the operand that has more."""
    scale = (
        min(dividend.scale, divisor.scale, 0)
        if dividend.scale < 0 or divisor.scale < 0
        else min(dividend.scale, divisor.scale)
    )
    power = dividend.scale - divisor.scale - scale
    numerator, denominator = dividend.value, divisor.value
    if power >= 0:
        numerator *= 10**power
    else:
        denominator *= 10**-power
    quotient = abs(numerator) // abs(denominator)
    sign = -1 if (numerator < 0) != (denominator < 0) else 1
    return Quantity(sign * quotient, scale, dividend.format, big=True)


def _modulo(left: JSON, right: JSON) -> JSON:
    match _operands("modulo", left, right):
        case (float() as one, float() as other):
            return float(math.fmod(*_integers(one, other)))
        case (Quantity() as one, Quantity() as other):
            remainder = int(math.fmod(*_integers(one.as_float, other.as_float)))
            return str(Quantity(remainder, 0, one.format))
        case (_Duration() as one, _Duration() as other):
            if other.nanoseconds == 0:
                raise _error("modulo", "Zero divisor passed")
            sign = -1 if one.nanoseconds < 0 else 1
            return duration_text(sign * (abs(one.nanoseconds) % abs(other.nanoseconds)))
    raise _mismatch("modulo")


def _integers(one: float, other: float) -> tuple[int, int]:
    if one != truncated(one) or other != truncated(other):
        raise _error("modulo", "Non-integer argument(s) passed for modulo")
    if other == 0:
        raise _error("modulo", "Zero divisor passed")
    return truncated(one), truncated(other)


def _quantity(value: float) -> Quantity:
    try:
        return parse_quantity(sprint(value))
    except QuantityError as error:
        raise JMESPathError(str(error)) from None


def _round(value: float, digits: float) -> float:
    """Return a number rounded to so many decimals, with halves away from zero."""
    if not math.isfinite(digits) or digits != math.trunc(digits):
        raise _error("round", "Non-integer argument(s) passed for round off")
    if digits < 0:
        # Kyverno gives its format no arguments, and Go prints this for them.
        raise _error("round", "%!d(MISSING) argument is out of bounds (%!d(MISSING))")
    try:
        shift = float(f"1e{int(digits)}")
        scaled = value * shift
        if not math.isfinite(scaled):
            return scaled / shift
        whole = math.trunc(scaled)
        rounded = whole + math.copysign(1, scaled) if abs(scaled - whole) >= 0.5 else float(whole)
        return math.copysign(rounded / shift, value)
    except OverflowError:
        return math.nan


def _guarded(body: Any) -> Any:
    """Wrap a function so that a quantity out of range is an error of the expression."""

    def run(*arguments: Any) -> Any:
        try:
            return body(*arguments)
        except QuantityError as error:
            raise JMESPathError(str(error)) from None

    return run


ARITHMETIC: tuple[Function, ...] = (
    Function("add", ((ANY,), (ANY,)), _guarded(_add)),
    Function("sum", ((ARRAY,),), _guarded(_sum)),
    Function("subtract", ((ANY,), (ANY,)), _guarded(_subtract)),
    Function("multiply", ((ANY,), (ANY,)), _guarded(_multiply)),
    Function("divide", ((ANY,), (ANY,)), _guarded(_divide)),
    Function("modulo", ((ANY,), (ANY,)), _guarded(_modulo)),
    Function("round", ((NUMBER,), (NUMBER,)), _round),
)


# Kyverno's functions on times (`pkg/engine/jmespath/time.go`). `clock` returns the current time if it is known.

Clock = Callable[[], GoTime]
_SECOND = 1_000_000_000


def _time(text: str, layout: str = RFC3339) -> GoTime:
    try:
        return parse_time(layout, text)
    except TimeError as error:
        raise JMESPathError(str(error)) from None


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except DurationError as error:
        raise JMESPathError(str(error)) from None


def _since(clock: Clock) -> Callable[[str, str, str], str]:
    def run(layout: str, start: str, end: str) -> str:
        began = _time(start, layout or RFC3339)
        ended = _time(end, layout or RFC3339) if end else clock()
        return duration_text(ended.subtract(began))

    return run


def _to_cron(text: str) -> str:
    _, month, day, hour, minute, _, weekday = _time(text).civil
    return f"{minute} {hour} {day} {month} {weekday}"


def _parse(layout: str, text: str) -> str:
    """Parse a time with a layout. If the layout is a number, the text is a number of seconds since 1970."""
    if parse_int(layout) is None:
        return _time(text, layout).rfc3339()
    seconds = parse_int(text)
    if seconds is None:
        wrong = "value out of range" if text.lstrip("+-").isdigit() else "invalid syntax"
        raise JMESPathError(f"strconv.ParseInt: parsing {quote(text)}: {wrong}")
    return GoTime(seconds * _SECOND).rfc3339()


def time_functions(clock: Clock) -> tuple[Function, ...]:
    """Return the functions on times. `clock` provides the current time."""
    one, two, three = ((STRING,),), ((STRING,), (STRING,)), ((STRING,), (STRING,), (STRING,))
    return (
        Function("time_since", three, _since(clock)),
        Function("time_now", (), lambda: clock().rfc3339()),
        Function("time_now_utc", (), lambda: clock().in_utc().rfc3339()),
        Function("time_to_cron", one, _to_cron),
        Function("time_add", two, lambda time, duration: _time(time).add(_duration(duration)).rfc3339()),
        Function("time_parse", two, _parse),
        Function("time_utc", one, lambda time: _time(time).in_utc().rfc3339()),
        Function("time_diff", two, _difference),
        Function("time_before", two, lambda one_, other: _time(one_).nanoseconds < _time(other).nanoseconds),
        Function("time_after", two, lambda one_, other: _time(one_).nanoseconds > _time(other).nanoseconds),
        Function("time_between", three, _between),
        Function("time_truncate", two, lambda time, duration: _time(time).truncate(_duration(duration)).rfc3339()),
    )


def _difference(start: str, end: str) -> str:
    began = _time(start)
    return duration_text(_time(end).subtract(began))


def _between(time: str, start: str, end: str) -> bool:
    instant, first, last = _time(time), _time(start), _time(end)
    return first.nanoseconds < instant.nanoseconds < last.nanoseconds
