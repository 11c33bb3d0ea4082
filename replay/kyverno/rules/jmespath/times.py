"""Kyverno's functions on times (`pkg/engine/jmespath/time.go`). `clock` returns the current time if it is known."""

from __future__ import annotations

from collections.abc import Callable

from replay.go.format import parse_int, quote
from replay.go.time import RFC3339, DurationError, GoTime, TimeError, duration_text, parse_duration, parse_time
from replay.kyverno.rules.errors import JMESPathError
from replay.kyverno.rules.jmespath.function import STRING, Function

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
