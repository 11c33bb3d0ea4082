from __future__ import annotations

import pytest

from replay.go.time import DurationError, duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("0", 0, "0s"),
        ("3s", 3_000_000_000, "3s"),
        ("1m30s", 90_000_000_000, "1m30s"),
        ("1h", 3_600_000_000_000, "1h0m0s"),
        ("-1.5ms", -1_500_000, "-1.5ms"),
        (".5s", 500_000_000, "500ms"),
        ("1.s", 1_000_000_000, "1s"),
        ("3\u00b5s", 3_000, "3\u00b5s"),
        ("+1ns", 1, "1ns"),
        ("1.000000001s", 1_000_000_001, "1.000000001s"),
    ],
)
def test_a_duration(text: str, nanoseconds: int, printed: str) -> None:
    assert parse_duration(text) == nanoseconds
    assert duration_text(nanoseconds) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("3", 'time: missing unit in duration "3"'),
        ("3x", 'time: unknown unit "x" in duration "3x"'),
        (".s", 'time: invalid duration ".s"'),
        ("3s5", 'time: missing unit in duration "3s5"'),
        ("999999999h", 'time: invalid duration "999999999h"'),
        ("s", 'time: invalid duration "s"'),
    ],
)
def test_no_duration(text: str, message: str) -> None:
    with pytest.raises(DurationError) as error:
        parse_duration(text)
    assert str(error.value) == message
