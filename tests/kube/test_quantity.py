from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.kube.quantity import FORMAT_WRONG, NUMERIC, SUFFIX, Quantity, QuantityError, parse_quantity

CANONICAL = [
    ("0", "0"),
    ("000", "0"),
    ("-0", "0"),
    ("1", "1"),
    ("1000", "1k"),
    ("1001", "1001"),
    ("1.5", "1500m"),
    ("0.5", "500m"),
    (".5", "500m"),
    ("5.", "5."),
    ("1024", "1024"),
    ("1Ki", "1Ki"),
    ("2048Ki", "2Mi"),
    ("1.5Gi", "1536Mi"),
    ("0.3Mi", "314572800m"),
    ("100m", "100m"),
    ("1e3", "1e3"),
    ("1.1e5", "110e3"),
    ("0.1n", "1n"),
    ("-0.0000000001", "-1n"),
    ("1000E", "1"),
    ("9223372036854775808", "9223372036854775808"),
    ("12345678901234567890Ki", "9223372036854775807"),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_canonical(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [("", FORMAT_WRONG), ("1 ", FORMAT_WRONG), ("a", FORMAT_WRONG), ("1K", SUFFIX), ("1i", SUFFIX), ("e-10", NUMERIC)],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as refused:
        parse_quantity(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        ("1", "1Ki", "1025", "-1023"),
        ("1Ki", "1", "1025", "1023"),
        ("0", "1Ki", "1Ki", "-1Ki"),
        ("1m", "1", "1001m", "-999m"),
        ("9223372036854775807", "1", "9223372036854775808", "9223372036854775806"),
        ("1e3", "1", "1001", "999"),
    ],
)
def test_arithmetic(left: str, right: str, total: str, difference: str) -> None:
    a, b = parse_quantity(left), parse_quantity(right)
    assert (str(a.add(b)), str(a.subtract(b))) == (total, difference)


def test_out_of_reach() -> None:
    huge = parse_quantity("1e2000000")
    assert huge.compare(Quantity(1)) == 1
    with pytest.raises(QuantityError):
        huge.add(parse_quantity("1n"))


@pytest.mark.property
@given(st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|e-?[0-9])?", fullmatch=True))
def test_the_canonical_form_is_stable_and_equal(text: str) -> None:
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))
    # The one suffix without a name is left out, as the server does.
    if abs(quantity.value) * 10.0**quantity.scale < 1e21:
        assert (again.compare(quantity), str(again)) == (0, str(quantity))
