from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.go.format import float_text, marshal, quote
from replay.manifests.go_type.decode import plain
from replay.manifests.read.json_reader import JSONSyntaxError, read_json

ERRORS = {
    "trailing comma in an object": ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
    "trailing comma in a list": ("[1,]", "invalid character ']' looking for beginning of value"),
    "open object": ("{", "unexpected end of JSON input"),
    "half a word": ("tru", "invalid character ' ' in literal true (expecting 'e')"),
    "open string": ('"a', "unexpected end of JSON input"),
    "no digits behind the point": ("1.x", "invalid character 'x' after decimal point in numeric literal"),
    "no digits in the exponent": ("1e+", "invalid character ' ' in exponent of numeric literal"),
    "leading zero": ("01", "invalid character '1' after top-level value"),
    "no colon": ('{"a" 1}', "invalid character '1' after object key"),
    "bad escape": ('"\\x"', "invalid character 'x' in string escape code"),
    "bad unicode escape": ('"\\u00g0"', "invalid character 'g' in \\u hexadecimal character escape"),
    "control character": ('"\n"', "invalid character '\\n' in string literal"),
    "single quotes": ("{'a': 1}", "invalid character '\\'' looking for beginning of object key string"),
    "two values": ("{} {}", "invalid character '{' after top-level value"),
    "no comma": ("[1 2]", "invalid character '2' after array element"),
    "a byte beyond ASCII": ("[ä]", "invalid character 'Ã' looking for beginning of value"),
    "too deep": ("[" * 10_001, "invalid character '[' exceeded max depth"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    text, message = ERRORS[name]
    with pytest.raises(JSONSyntaxError) as caught:
        read_json(text.encode())
    assert str(caught.value) == message


def test_text_that_is_no_unicode_is_replaced() -> None:
    assert plain(read_json(b'["\xff\xc3\xa4", "\\ud800x", "\\ud83d\\ude00"]')) == ["\ufffdä", "\ufffdx", "😀"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.property
@settings(max_examples=100, deadline=None)
@given(JSON_VALUES)
def test_reads_what_json_writes(value: object) -> None:
    assert plain(read_json(json.dumps(value).encode())) == value
    assert json.loads(marshal(value)) == value


FLOATS = {
    1e21: "1e+21",
    1e20: "100000000000000000000",
    1e-7: "1e-7",
    1.5e-7: "1.5e-7",
    1e-6: "0.000001",
    10.0: "10",
    -2.5: "-2.5",
}


@pytest.mark.parametrize("value", FLOATS)
def test_floats(value: float) -> None:
    assert float_text(value) == FLOATS[value]


QUOTED = {
    'a"b\\': '"a\\"b\\\\"',
    "\n\x01\x7f": '"\\n\\x01\\x7f"',
    "ä\u2028": '"ä\\u2028"',
    "\U000e0001": '"\\U000e0001"',
}


@pytest.mark.parametrize("value", QUOTED)
def test_quote(value: str) -> None:
    assert quote(value) == QUOTED[value]
