from __future__ import annotations

import pytest

from replay.kube.amount import QuantityError, canonical_quantity, rounded_up_to_milli

CANONICAL = [
    ("0", "0"),
    ("0Mi", "0"),
    ("1000m", "1"),
    ("0.5", "500m"),
    ("1.5", "1500m"),
    ("1000", "1k"),
    ("1500", "1500"),
    ("1000000", "1M"),
    ("0.0001", "100u"),
    ("1n", "1n"),
    ("0.1n", "1n"),
    ("1024Mi", "1Gi"),
    ("1.5Gi", "1536Mi"),
    ("0.5Ki", "512"),
    ("1.3Gi", "1395864371200m"),
    ("1e3", "1e3"),
    ("10e3", "10e3"),
    ("1E6", "1e6"),
    ("1E", "1E"),
    ("-1000m", "-1"),
    ("+5", "5"),
    ("9223372036854775808", "9223372036854775807"),
]


@pytest.mark.parametrize(("text", "expected"), CANONICAL)
def test_canonical(text: str, expected: str) -> None:
    assert canonical_quantity(text) == expected
    assert canonical_quantity(expected) == expected


@pytest.mark.parametrize(("text", "expected"), [("1u", "1m"), ("1001u", "2m"), ("500m", "500m"), ("2Gi", "2Gi")])
def test_rounded_up(text: str, expected: str) -> None:
    assert rounded_up_to_milli(text) == expected


@pytest.mark.parametrize("text", ["", "abc", "1X", "1e", "1 ", "--1", "1.2.3", "1Kib"])
def test_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        canonical_quantity(text)
