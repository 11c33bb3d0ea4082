"""Times against Go's `time.Parse(time.RFC3339, text).UTC().Format(time.RFC3339)`."""

from __future__ import annotations

import pytest

from replay.go.time import RFC3339, RFC3339_MICRO, TimeError, parse_time

AS_RFC3339 = f'as "{RFC3339}": cannot parse'
WRITTEN = [
    ("a day ahead", "2024-01-02T03:04:05+24:00", "2024-01-01T03:04:05Z"),
    ("a part of a second", "2024-01-02T03:04:05.999999999Z", "2024-01-02T03:04:05Z"),
    ("an hour of one digit, a comma", "2024-01-02T3:04:05,5Z", "2024-01-02T03:04:05Z"),
    ("the year 10000", "9999-12-31T23:00:00-02:00", "10000-01-01T01:00:00Z"),
    ("the year 0", "0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
    ("the year before", "0000-01-01T00:00:00+02:00", "-0001-12-31T22:00:00Z"),
]
REFUSED = [
    ("an offset of 99 hours", "2024-01-02T03:04:05+99:00", ": time zone offset hour out of range"),
    ("a month, before what follows", "2024-13-0xT", ": month out of range"),
    ("a second, before the day", "2024-02-30T01:01:99Z", ": second out of range"),
    ("a day of its month", "2024-02-30T01:01:09Z", ": day out of range"),
    ("a small t", "2024-01-02t03:04:05Z", f' {AS_RFC3339} "t03:04:05Z" as "T"'),
    ("a date alone", "2024-01-02", f' {AS_RFC3339} "" as "T"'),
    ("nothing", "", f' {AS_RFC3339} "" as "2006"'),
    ("more text", "2024-01-02T03:04:05Zé", r': extra text: "\xc3\xa9"'),
]


@pytest.mark.parametrize(("text", "written"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN])
def test_a_time(text: str, written: str) -> None:
    assert parse_time(RFC3339, text).in_utc().rfc3339() == written


@pytest.mark.parametrize(("text", "problem"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_no_time(text: str, problem: str) -> None:
    with pytest.raises(TimeError) as raised:
        parse_time(RFC3339, text)
    shown = text.replace("é", r"\xc3\xa9")
    assert str(raised.value) == f'parsing time "{shown}"{problem}'


def test_microseconds() -> None:
    assert (
        parse_time(RFC3339_MICRO, "2024-01-02T03:04:05.000120+02:00").rfc3339(6) == "2024-01-02T03:04:05.000120+02:00"
    )
