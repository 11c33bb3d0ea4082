"""Automata of text predicates, held against the predicates."""

from __future__ import annotations

from itertools import product

import pytest

from replay.prove.symbolic.node import answer_of
from replay.prove.symbolic.text.language import Predicate, combinations, is_regular

GROUPS = {
    "registries": (
        Predicate("matches", "^(registry\\.example\\.com|registry\\.k8s\\.io)/"),
        Predicate("startsWith", "registry.example.com"),
        Predicate("contains", "@sha256:"),
    ),
    "anchors": (Predicate("matches", "^a+$"), Predicate("matches", "a+"), Predicate("equal", "aa")),
    "alternatives": (Predicate("matches", "^(a|b)$"), Predicate("equal", "a"), Predicate("equal", "b")),
    "order": (Predicate("less", "2Gi"), Predicate("startsWith", "1"), Predicate("endsWith", "Gi")),
    "empty": (Predicate("matches", "^$"), Predicate("longer", number=0), Predicate("longer", number=2)),
    "an end inside": (Predicate("matches", "(^a|b)$|c"), Predicate("contains", "b")),
}
ALPHABET = "ab1G/r"


@pytest.mark.parametrize("name", GROUPS)
def test_samples_give_the_answers_that_they_stand_for(name: str) -> None:
    found = combinations(GROUPS[name])
    assert found is not None
    for answers, text in found.samples:
        assert tuple(answer_of(each, text) for each in GROUPS[name]) == answers


@pytest.mark.parametrize("name", GROUPS)
def test_no_text_gives_other_combinations(name: str) -> None:
    found = combinations(GROUPS[name])
    assert found is not None
    possible = {answers for answers, _ in found.samples}
    for length in range(5):
        for letters in product(ALPHABET, repeat=length):
            text = "".join(letters)
            assert tuple(answer_of(each, text) for each in GROUPS[name]) in possible, text


@pytest.mark.parametrize("pattern", ["(?i)a", "\\bword", "\\pL+", "[[:alpha:]]", "a{,3}", "\\Qa.b\\E", "(?s).*"])
def test_what_is_not_said_has_no_automaton(pattern: str) -> None:
    assert not is_regular(Predicate("matches", pattern))
