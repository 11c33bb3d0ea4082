"""`regexp/syntax`: what Go refuses, in its words, and that RE2 takes what it accepts."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from replay.go.regexp import re2_pattern
from replay.go.regexp_tree import RegexpError, UnsupportedRegexpError

CASES = [json.loads(line) for line in (Path(__file__).parent / "data/regexp.jsonl").read_text("utf-8").splitlines()]
LIMITS = {
    "height": ("(" * 999 + ")" * 999, ""),
    "too high": ("(" * 1000 + ")" * 1000, "expression nests too deeply"),
    "size": ("(" + "a" * 3350 + "){1000}", ""),
    "too large": ("(" + "a" * 3400 + "){1000}", "expression too large"),
    "repeats": ("((a{10}){10}){10}" * 50, ""),
}
"""Patterns at the limits, and the code of the error."""

TRANSLATED = {
    "names are forgotten": ("(?P<a>x)(?<a>y)", "(x)(y)"),
    "an alias": (r"\p{Uppercase_Letter}", r"\p{Lu}"),
    "a class in a class": (r"[\p{Any}x]", r"[\x{0}-\x{10ffff}x]"),
}


def answer(pattern: str) -> str:
    """Go's error, empty where there is none; what is accepted compiles."""
    try:
        translated = re2_pattern(pattern)
    except RegexpError as error:
        return str(error)
    except UnsupportedRegexpError:
        return ""
    options = re2.Options()
    options.max_mem = 256 << 20
    re2.compile(translated, options)
    return ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["pattern"])
def test_as_go(case: dict[str, str]) -> None:
    assert answer(case["pattern"]) == case.get("error", "")


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str) -> None:
    pattern, code = LIMITS[name]
    assert answer(pattern) == (f"error parsing regexp: {code}: `{pattern}`" if code else "")


@pytest.mark.parametrize("name", TRANSLATED)
def test_translation(name: str) -> None:
    pattern, translated = TRANSLATED[name]
    assert re2_pattern(pattern) == translated


@pytest.mark.property
@given(st.text(r"ab09()[]{}|*+?^$.\-,:<>=!iPpLQEdxC", max_size=30) | st.text(max_size=20))
def test_any_text(pattern: str) -> None:
    with contextlib.suppress(UnsupportedRegexpError):
        assert answer(pattern).startswith(("", "error parsing regexp: "))
