"""Numbers in text, as Go's `strconv` reads them."""

from __future__ import annotations

import pytest

from replay.go.format import parse_int, parse_uint

LONG = "9" * 9000
CASES: list[tuple[str, int | None, int | None]] = [
    ("0", 0, 0),
    ("7", 7, 7),
    ("-7", -7, None),
    ("+7", 7, None),
    ("007", 7, 7),
    ("0" * 9000 + "7", 7, 7),
    ("9223372036854775807", 2**63 - 1, 2**63 - 1),
    ("9223372036854775808", None, 2**63),
    ("-9223372036854775808", -(2**63), None),
    ("-9223372036854775809", None, None),
    ("18446744073709551615", None, 2**64 - 1),
    ("18446744073709551616", None, None),
    (LONG, None, None),
    (f"-{LONG}", None, None),
    ("", None, None),
    ("-", None, None),
    ("--1", None, None),
    (" 1", None, None),
    ("1\n", None, None),
    ("1_000", None, None),
    ("1.0", None, None),
    ("1e3", None, None),
    ("0x10", None, None),
    ("²", None, None),
    ("٣", None, None),
]


@pytest.mark.parametrize(("text", "signed", "unsigned"), CASES, ids=[repr(case[0][:24]) for case in CASES])
def test_numbers(text: str, signed: int | None, unsigned: int | None) -> None:
    assert (parse_int(text), parse_uint(text)) == (signed, unsigned)


@pytest.mark.parametrize(
    ("text", "bits", "signed", "unsigned"),
    [("2147483647", 32, 2**31 - 1, 2**31 - 1), ("2147483648", 32, None, 2**31), ("-32769", 16, None, None)],
)
def test_fewer_bits(text: str, bits: int, signed: int | None, unsigned: int | None) -> None:
    assert (parse_int(text, bits), parse_uint(text, bits)) == (signed, unsigned)
