"""What parses text of policies and objects raises its own error or none, whatever the text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.cel.value.values import EvalError
from replay.cellib.library.named_format import formats
from replay.cellib.library.semver import normalized, parse_version
from replay.cellib.library.string_format import format_string
from replay.cellib.version import NEWEST
from replay.go.netip import AddressError, parse_address, parse_prefix
from replay.go.url import URLError, parse_request_uri, parse_url
from replay.kube.quantity import QuantityError, parse_quantity

PARSERS: list[tuple[Callable[[str], Any], type[Exception]]] = [
    (parse_request_uri, URLError),
    (parse_url, URLError),
    (parse_address, AddressError),
    (parse_prefix, AddressError),
    (parse_version, EvalError),
    (normalized, EvalError),
    (parse_quantity, QuantityError),
]
TEXT = st.one_of(st.text(max_size=60), st.text("0123456789abcdefKMGinum.:/%?#[]@+-eE ", max_size=40))


@pytest.mark.property
@pytest.mark.parametrize(("parse", "error"), PARSERS, ids=lambda item: item.__name__)
@given(text=TEXT)
def test_never_raises_anything_else(parse: Callable[[str], Any], error: type[Exception], text: str) -> None:
    with contextlib.suppress(error):
        str(parse(text))


@pytest.mark.property
@given(TEXT)
def test_named_formats_answer_every_text(text: str) -> None:
    for format_ in formats(NEWEST).values():
        assert all(format_.validate(text))


@pytest.mark.property
@given(
    TEXT | st.text("%.0123456789sdfexXob", max_size=12), st.lists(st.floats() | st.integers() | st.text() | st.none())
)
def test_format_answers_or_fails(template: str, args: list[Any]) -> None:
    with contextlib.suppress(EvalError):
        assert isinstance(format_string(template, args), str)
