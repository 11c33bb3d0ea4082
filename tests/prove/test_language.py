"""Automata of text predicates, held against the predicates."""

from __future__ import annotations

from itertools import product

import pytest

from replay.prove.symbolic.text_function import TextFunction
from replay.prove.symbolic.text_language import TextPredicate, _automaton, combinations, is_regular

GROUPS = {
    "registries": (
        TextPredicate("matches", "^(registry\\.example\\.com|registry\\.k8s\\.io)/"),
        TextPredicate("startsWith", "registry.example.com"),
        TextPredicate("contains", "@sha256:"),
    ),
    "anchors": (TextPredicate("matches", "^a+$"), TextPredicate("matches", "a+"), TextPredicate("equal", "aa")),
    "alternatives": (TextPredicate("matches", "^(a|b)$"), TextPredicate("equal", "a"), TextPredicate("equal", "b")),
    "order": (TextPredicate("less", "2Gi"), TextPredicate("startsWith", "1"), TextPredicate("endsWith", "Gi")),
    "empty": (TextPredicate("matches", "^$"), TextPredicate("longer", number=0), TextPredicate("longer", number=2)),
    "folded": (
        TextPredicate("matches", "(?i)^ab"),
        TextPredicate("matches", "^(?i:a)b"),
        TextPredicate("startsWith", "a"),
    ),
    "classes": (
        TextPredicate("matches", "^[[:alpha:]]+$"),
        TextPredicate("matches", "\\W"),
        TextPredicate("matches", "^[^a-b\\d]*$"),
    ),
    "flags": (
        TextPredicate("matches", "(?s)^a.b$"),
        TextPredicate("matches", "^a.b$"),
        TextPredicate("matches", "\\Qa.\\Eb"),
    ),
    "braces": (
        TextPredicate("matches", "^a{,3}"),
        TextPredicate("matches", "^a{2,3}?b"),
        TextPredicate("matches", "^(a|b){2}$"),
    ),
    "an end inside": (TextPredicate("matches", "(^a|b)$|c"), TextPredicate("contains", "b")),
}
FUNCTIONS = (
    TextFunction("lowerAscii"),
    TextFunction("upperAscii"),
    TextFunction("prepend", "ab"),
    TextFunction("append", "b/"),
    *(TextFunction(kind, number=number) for kind in ("begin", "drop") for number in (1, 3)),
    *(TextFunction("piece", "/", number) for number in (0, 1, 2, -1, -2, -3)),
)
ALPHABET = "ab1G/r"


@pytest.mark.parametrize("name", GROUPS)
def test_samples_give_the_answers_that_they_stand_for(name: str) -> None:
    found = combinations(GROUPS[name])
    assert found is not None
    for answers, text in found.samples:
        assert tuple(each.holds(text) for each in GROUPS[name]) == answers


@pytest.mark.parametrize("name", GROUPS)
def test_no_text_gives_other_combinations(name: str) -> None:
    found = combinations(GROUPS[name])
    assert found is not None
    possible = {answers for answers, _ in found.samples}
    for length in range(5):
        for letters in product(ALPHABET, repeat=length):
            text = "".join(letters)
            assert tuple(each.holds(text) for each in GROUPS[name]) in possible, text


@pytest.mark.parametrize("pattern", ["(?i)é", "\\bword", "\\pL+", "(?m)^a$", "a{1001}", "("])
def test_what_is_not_said_has_no_automaton(pattern: str) -> None:
    assert not is_regular(TextPredicate("matches", pattern))


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_questions_about_results_are_questions_about_arguments(function: TextFunction) -> None:
    asked = (
        TextPredicate("equal", ""),
        TextPredicate("equal", "a"),
        TextPredicate("startsWith", "a"),
        TextPredicate("endsWith", "b"),
        TextPredicate("contains", "B"),
        TextPredicate("matches", "^[a-b]+$"),
        TextPredicate("pieces", "b", 1),
        TextPredicate("less", "b"),
    )
    pulled = [each.after(function) for each in asked] + [each.after(function).after(FUNCTIONS[2]) for each in asked]
    automata = [_automaton(each) for each in pulled]
    for length in range(6):
        for letters in product("ab/B", repeat=length):
            text = "".join(letters)
            for each, automaton in zip(pulled, automata, strict=True):
                assert automaton is not None
                assert automaton.accepts(text) == each.holds(text), (each, text)
