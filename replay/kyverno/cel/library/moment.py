"""Rounding, times, random texts and certificates in CEL (`libs/math`, `time`, `random`, `x509`)."""

from __future__ import annotations

from typing import Final

from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Expr
from replay.cel.declare.library import Function, Library, Overload, VariableDecl, overloaded
from replay.cel.declare.macros import Macro
from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.timestamp import NANOS, Duration, Timestamp, field
from replay.cel.value.types import DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP
from replay.cel.value.values import EvalError, Value
from replay.cellib.library.macros import is_namespace
from replay.cellib.library.math import rounded
from replay.go.certificate import CertificateError, UnreadKeyError, certificate_fields
from replay.go.encoding import decode_pem
from replay.kyverno.rules.go_value import with_floats

_YEAR_1 = -62135596800
"""Start of year 1 in Unix seconds. Go truncates times relative to it."""


def _round(value: float, places: int) -> float:
    try:
        shift = 10.0**places
        return rounded(value * shift) / shift
    except (OverflowError, ZeroDivisionError):
        return float("nan")


NOW: Final = "@now"
"""Variable that `time.now()` reads. No expression can name it."""


def _now(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:  # noqa: ARG001 - there are none
    return factory.ident(NOW) if is_namespace(target, "time") else None


def _random(pattern: str = "") -> Value:  # noqa: ARG001 - the same whatever the pattern
    raise UndeterminedError("random() differs from one evaluation to the next")


def _certificate(text: str) -> Value:
    block = decode_pem(text.encode("utf-8", "surrogateescape"))
    if block is None:
        raise EvalError("failed to decode PEM block")
    if block.type == "CERTIFICATE REQUEST":
        raise UndeterminedError("x509.decode: replay does not decode certificate requests")
    if block.type != "CERTIFICATE":
        raise EvalError("PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST")
    try:
        return with_floats(certificate_fields(block.data))
    except UnreadKeyError as error:
        raise EvalError(str(error)) from None
    except CertificateError as error:
        raise UndeterminedError(f"x509.decode: {error}") from None


def _cron(instant: Timestamp) -> str:
    # In the zone in which the time is written.
    local = Timestamp(instant.seconds + instant.offset)
    values = [field(local, part) for part in ("getMinutes", "getHours", "getDate", "getMonth", "getDayOfWeek")]
    # CEL counts months from 0, cron from 1.
    values[3] += 1
    return " ".join(map(str, values))


def _truncate(instant: Timestamp, step: Duration) -> Timestamp:
    """Return a time rounded down to a multiple of a duration since year 1, as Go's `Time.Truncate` does."""
    if step.nanos <= 0:
        return instant
    since = (instant.seconds - _YEAR_1) * NANOS + instant.nanos
    seconds, nanos = divmod(since - since % step.nanos, NANOS)
    return Timestamp(seconds + _YEAR_1, nanos, instant.offset)


def _randoms(name: str, suffix: str) -> Function:
    return overloaded(
        name,
        (f"random_string_{suffix}", (STRING,), STRING, _random),
        (f"random_string_default_expr_{suffix}", (), STRING, _random),
    )


MOMENT = Library(
    name="kyverno.moment",
    functions=(
        overloaded("math.round", ("math_round_float_int", (DOUBLE, INT), DOUBLE, _round)),
        Function("time.now", (Overload("time_now", (), TIMESTAMP),)),
        overloaded("time.toCron", ("time_to_cron", (TIMESTAMP,), STRING, _cron)),
        overloaded("time.truncate", ("time_truncate", (TIMESTAMP, DURATION), TIMESTAMP, _truncate)),
        _randoms("random", "non_prefixed"),
        _randoms("random.random", "prefixed"),
        overloaded("x509.decode", ("x509_decode_string", (STRING,), DYN, _certificate)),
    ),
    variables=(VariableDecl(NOW, TIMESTAMP),),
    macros=(Macro("now", (0,), _now),),
)
"""Library of `math.round`, `time`, `random` and `x509`."""
