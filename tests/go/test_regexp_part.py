"""What patterns are made of."""

from __future__ import annotations

import pytest

from replay.go.regexp import parts_of_pattern
from replay.go.regexp_tree import (
    Alternatives,
    Assertion,
    Characters,
    Concatenation,
    RegexpPart,
    Repeated,
    UnlistedCharactersError,
    complement,
)


def _one(text: str) -> Characters:
    return Characters(tuple((ord(char), ord(char)) for char in text))


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("", Concatenation(())),
        ("a", _one("a")),
        ("ab", Concatenation((_one("a"), _one("b")))),
        (
            "a|bc|",
            Alternatives((Concatenation((_one("a"),)), Concatenation((_one("b"), _one("c"))), Concatenation(()))),
        ),
        ("(a)b", Concatenation((_one("a"), _one("b")))),
        ("a*?", Repeated(_one("a"), 0, None)),
        ("a+", Repeated(_one("a"), 1, None)),
        ("a{2,3}", Repeated(_one("a"), 2, 3)),
        ("a{2,}", Repeated(_one("a"), 2, None)),
        ("a{,2}", Concatenation(tuple(map(_one, "a{,2}")))),
        (".", Characters(complement(((10, 10),)))),
        ("(?s).", Characters(((0, 0x10FFFF),))),
        ("^$", Concatenation((Assertion(r"\A"), Assertion(r"\z")))),
        ("(?m:^)$", Concatenation((Assertion("^"), Assertion(r"\z")))),
        (r"\b", Assertion(r"\b")),
        ("[a-c-]", Characters(((ord("-"), ord("-")), (ord("a"), ord("c"))))),
        (r"[^\d]", Characters(complement(((48, 57),)))),
        ("[[:^ascii:]]", Characters(((0x80, 0x10FFFF),))),
        ("(?i)a", _one("Aa")),
        ("(?i:k)k", Concatenation((_one("Kk\u212a"), _one("k")))),
        ("(a(?i)b)c", Concatenation((Concatenation((_one("a"), _one("Bb"))), _one("c")))),
        (r"\Qa.\E+", Concatenation((_one("a"), Repeated(_one("."), 1, None)))),
        (r"\x41\n", Concatenation((_one("A"), _one("\n")))),
    ],
)
def test_parts(pattern: str, part: RegexpPart) -> None:
    assert parts_of_pattern(pattern) == part


@pytest.mark.parametrize("pattern", [r"\pL", r"[\pL]", "(?i)é", "(?i)[^é]"])
def test_what_is_not_listed_is_said(pattern: str) -> None:
    with pytest.raises(UnlistedCharactersError):
        parts_of_pattern(pattern)
