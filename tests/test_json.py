"""Numbers of JSON texts as `unstructured.UnmarshalJSON` of apimachinery 0.37.1 gives them."""

from __future__ import annotations

import math

import orjson
import pytest
import yaml

from replay.json import decode_json, integer, with_doubles
from replay.reconstruct.record.body import Body

NUMBERS = {
    "5": 5,
    "5.0": 5.0,
    "1e3": 1000.0,
    "-0": 0,
    "-0.0": -0.0,
    "9223372036854775807": 2**63 - 1,
    "9223372036854775808": 2.0**63,
    "-9223372036854775808": -(2**63),
    "-9223372036854775809": -(2.0**63),
    "18446744073709551615": 2.0**64,
    "18446744073709551616": 2.0**64,
    "123456789012345678901234567890": 1.2345678901234568e29,
    "1e19": 1e19,
}


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.parametrize("place", ["{}", "[{}]", '{{"a": {}}}', '{{"a": [[0, {{"b": {}}}]]}}'])
def test_numbers_at_any_depth(text: str, place: str) -> None:
    found, wanted = decode_json(place.format(text)), decode_json(place.format("null"))
    expected = orjson.loads(orjson.dumps(wanted).replace(b"null", b'"x"'))
    assert repr(found) == repr(expected).replace("'x'", repr(NUMBERS[text]))


@pytest.mark.parametrize("text", [text for text in NUMBERS if text.lstrip("-").isdigit() and text != "-0"])
def test_integers_alone(text: str) -> None:
    assert (type(integer(text)), integer(text)) == (type(NUMBERS[text]), NUMBERS[text])
    read = with_doubles(yaml.safe_load(f"[{text}]"))
    assert (type(read[0]), read[0]) == (type(NUMBERS[text]), NUMBERS[text])


def test_what_no_double_holds() -> None:
    assert (integer("9" * 400), with_doubles([-(10**400)])) == (math.inf, [-math.inf])
    with pytest.raises(orjson.JSONDecodeError):
        decode_json("1e400")


def test_bodies_have_them() -> None:
    body = Body('{"kind":"Widget","spec":{"n":18446744073709551615,"uid":"9223372036854775808"}}')
    assert body.json["spec"] == {"n": 2.0**64, "uid": "9223372036854775808"}
